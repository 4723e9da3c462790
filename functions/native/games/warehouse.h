/* Robots in a warehouse (Papoudakis et al. 2021), in whole numbers. Each step equals the package rware 2.0.0. Only a
 * tie between two queues of robots has another rule, see `warehouse_goes_first`. */
#ifndef ML_WAREHOUSE_H
#define ML_WAREHOUSE_H

#include "draws.h"

/* Python refuses more robots. */
#define ML_MOST_ROBOTS 64

enum WarehouseAction { WAREHOUSE_STAY, WAREHOUSE_FORWARD, WAREHOUSE_LEFT, WAREHOUSE_RIGHT, WAREHOUSE_TOGGLE };
enum WarehousePurpose { WAREHOUSE_START, WAREHOUSE_DELIVERY };
enum WarehouseReward { WAREHOUSE_GLOBAL, WAREHOUSE_INDIVIDUAL, WAREHOUSE_TWO_STAGE };
enum WarehouseFloor { WAREHOUSE_HIGHWAY = 1, WAREHOUSE_GOAL = 2 };
enum RobotHeading { ROBOT_UP, ROBOT_DOWN, ROBOT_LEFT, ROBOT_RIGHT };

/* `shelf` is the number of the carried shelf, or 0. */
typedef struct {
    int32_t cell, heading, shelf, has_delivered, message;
} Robot;

/* Shelves and robots have numbers from 1. Tables: `floor` [cells] is a sum of `WarehouseFloor`. `homes` [cells] are the
 * shelves at the start of an episode. `goals` [goal_count] are cells. `across` [columns] and `down` [rows] are the
 * observed numbers of a column and a row. State: `robots` [E, agents], `shelf_at` and `robot_at` [E, cells],
 * `requested` [E, shelves + 1], and `idle` [E], the steps without a delivery. `max_inactivity_steps` of them end the
 * episode, unless it is 0. */
#define ML_WAREHOUSE(X, S) \
    ML_GAME(X, S) \
    X(S, int64_t, rows) X(S, int64_t, columns) X(S, int64_t, shelves) X(S, int64_t, requests) \
    X(S, int64_t, goal_count) X(S, int64_t, horizon) X(S, int64_t, max_inactivity_steps) \
    X(S, int64_t, sensor_range) X(S, int64_t, msg_bits) \
    X(S, int64_t, reward_type) X(S, int64_t, is_image) X(S, int64_t, has_features) X(S, int64_t, is_directional) \
    X(S, const uint8_t *, floor) X(S, const int16_t *, homes) X(S, const int64_t *, goals) \
    X(S, const float *, across) X(S, const float *, down) X(S, Robot *, robots) X(S, int16_t *, shelf_at) \
    X(S, int16_t *, robot_at) X(S, uint8_t *, requested) X(S, int64_t *, idle)

typedef struct {
    ML_WAREHOUSE(ML_MEMBER, Warehouse)
} Warehouse;

/* One environment. */
typedef struct {
    Robot *robots;
    int16_t *shelf_at, *robot_at;
    uint8_t *requested;
} Hall;

/* The plan of each robot: the wanted cell, the robot there (or -1), and the length of the queue behind it. Then its
 * place in ties, and whether it succeeds. */
typedef struct {
    int64_t wanted[ML_MOST_ROBOTS], next[ML_MOST_ROBOTS], behind[ML_MOST_ROBOTS], tie[ML_MOST_ROBOTS];
    uint8_t succeeds[ML_MOST_ROBOTS];
} Traffic;

ML_INLINE Hall warehouse_hall_of(const Warehouse *game, int64_t env) {
    int64_t cells = game->rows * game->columns;
    return (Hall){game->robots + env * game->agents, game->shelf_at + env * cells, game->robot_at + env * cells,
                  game->requested + env * (game->shelves + 1)};
}

static int64_t warehouse_cell_ahead(const Warehouse *game, const Robot *robot) {
    int64_t row = robot->cell / game->columns, column = robot->cell % game->columns;
    row += (robot->heading == ROBOT_DOWN && row < game->rows - 1) - (robot->heading == ROBOT_UP && row > 0);
    column += (robot->heading == ROBOT_RIGHT && column < game->columns - 1) -
              (robot->heading == ROBOT_LEFT && column > 0);
    return row * game->columns + column;
}

/* A loaded robot is stopped by a shelf, unless another robot carries that shelf. */
static void warehouse_want(const Warehouse *game, const Hall *hall, const int64_t *actions, Traffic *traffic) {
    for (int64_t number = 0; number < game->agents; number++) {
        const Robot *robot = hall->robots + number;
        int64_t cell = robot->cell;
        if (actions[number] >> game->msg_bits == WAREHOUSE_FORWARD) cell = warehouse_cell_ahead(game, robot);
        int64_t other = hall->robot_at[cell] - 1;
        int is_carried = other >= 0 && hall->robots[other].shelf;
        if (cell != robot->cell && robot->shelf && hall->shelf_at[cell] && !is_carried) {
            cell = robot->cell;
            other = number;
        }
        traffic->wanted[number] = cell;
        traffic->next[number] = other;
    }
}

/* Of two robots that want the same cell, the robot with the longer queue behind it goes first. In a tie the first
 * in this list goes: cell of robot 1, cell that it wants, cell of robot 2, and so on. The package
 * does the same if at least half of the cells in the list are connected with the two. Else it follows the order of a
 * set in Python. */
ML_INLINE int warehouse_goes_first(const Traffic *traffic, int64_t one, int64_t other) {
    if (traffic->behind[one] != traffic->behind[other]) return traffic->behind[one] > traffic->behind[other];
    return traffic->tie[one] < traffic->tie[other];
}

/* The robot that goes first into the cell, or -1 if no robot wants it. */
static int64_t warehouse_first_into(const Traffic *traffic, int64_t robots, int64_t cell) {
    int64_t first = -1;
    for (int64_t robot = 0; robot < robots; robot++)
        if (traffic->wanted[robot] == cell && (first < 0 || warehouse_goes_first(traffic, robot, first))) first = robot;
    return first;
}

/* Robots that want each other's cells in a circle move, but two robots cannot exchange their cells. A robot that stays
 * is a circle of one. Robots that queue behind a circle fail. Of the queues to an empty cell, the longest one moves. */
static void warehouse_settle(const Hall *hall, int64_t robots, Traffic *traffic) {
    for (int64_t robot = 0; robot < robots; robot++) traffic->behind[robot] = 0, traffic->tie[robot] = 2 * robot;
    for (int64_t robot = 0; robot < robots; robot++) {
        int64_t at = traffic->next[robot], length = 1;
        if (at >= 0) traffic->tie[at] = lesser(traffic->tie[at], 2 * robot + 1);
        for (; at >= 0 && at != robot && length <= robots; at = traffic->next[at], length++)
            if (traffic->behind[at] < length) traffic->behind[at] = length;
        traffic->succeeds[robot] = at == robot && length != 2;
    }
    for (int64_t head = 0; head < robots; head++)
        if (traffic->next[head] < 0 && warehouse_first_into(traffic, robots, traffic->wanted[head]) == head)
            for (int64_t at = head; at >= 0; at = warehouse_first_into(traffic, robots, hall->robots[at].cell))
                traffic->succeeds[at] = 1;
}

static void warehouse_drive(const Warehouse *game, const Hall *hall, const Traffic *traffic) {
    for (int64_t number = 0; number < game->agents; number++) {
        const Robot *robot = hall->robots + number;
        if (!traffic->succeeds[number]) continue;
        hall->robot_at[robot->cell] = 0;
        if (robot->shelf) hall->shelf_at[robot->cell] = 0;
    }
    for (int64_t number = 0; number < game->agents; number++) {
        Robot *robot = hall->robots + number;
        if (!traffic->succeeds[number]) continue;
        robot->cell = (int32_t)traffic->wanted[number];
        hall->robot_at[robot->cell] = (int16_t)(number + 1);
        if (robot->shelf) hall->shelf_at[robot->cell] = (int16_t)robot->shelf;
    }
}

/* A robot cannot put a shelf down on a highway, which includes goals. */
static void warehouse_toggle(const Warehouse *game, const Hall *hall, Robot *robot, double *reward) {
    if (!robot->shelf) {
        robot->shelf = hall->shelf_at[robot->cell];
        return;
    }
    if (game->floor[robot->cell] & WAREHOUSE_HIGHWAY) return;
    if (robot->has_delivered && game->reward_type == WAREHOUSE_TWO_STAGE) *reward += 0.5;
    robot->shelf = robot->has_delivered = 0;
}

static void warehouse_turn_and_toggle(const Warehouse *game, const Hall *hall, const int64_t *actions,
                                      double *rewards) {
    static const int32_t left_of[] = {ROBOT_LEFT, ROBOT_RIGHT, ROBOT_DOWN, ROBOT_UP};
    static const int32_t right_of[] = {ROBOT_RIGHT, ROBOT_LEFT, ROBOT_UP, ROBOT_DOWN};
    for (int64_t number = 0; number < game->agents; number++) {
        Robot *robot = hall->robots + number;
        int64_t action = actions[number] >> game->msg_bits;
        robot->message = (int32_t)(actions[number] & (((int64_t)1 << game->msg_bits) - 1));
        if (action == WAREHOUSE_LEFT) robot->heading = left_of[robot->heading];
        if (action == WAREHOUSE_RIGHT) robot->heading = right_of[robot->heading];
        if (action == WAREHOUSE_TOGGLE) warehouse_toggle(game, hall, robot, rewards + number);
    }
}

/* Requests a shelf by its place, from 0, among the shelves without a request. */
static void warehouse_request(const Warehouse *game, const Hall *hall, int64_t place) {
    int64_t shelf = 1;
    for (; shelf < game->shelves && (hall->requested[shelf] || place--); shelf++);
    hall->requested[shelf] = 1;
}

static void warehouse_pay(const Warehouse *game, const Hall *hall, int64_t goal, double *rewards) {
    /* Without a robot there, the package pays the last robot. Only a state set by hand can be so. */
    int64_t number = (hall->robot_at[goal] ? hall->robot_at[goal] : game->agents) - 1;
    if (game->reward_type == WAREHOUSE_GLOBAL)
        for (int64_t robot = 0; robot < game->agents; robot++) rewards[robot] += 1;
    if (game->reward_type == WAREHOUSE_INDIVIDUAL) rewards[number] += 1;
    if (game->reward_type != WAREHOUSE_TWO_STAGE) return;
    hall->robots[number].has_delivered = 1;
    rewards[number] += 0.5;
}

/* Another request replaces a delivered shelf at once, so a shelf on a later goal may be delivered in the same step.
 * Returns whether a shelf was delivered. */
static int warehouse_deliver(const Warehouse *game, const Hall *hall, int64_t env, double *rewards) {
    Draws draws = draws_of(game->keys[env], game->episode[env], game->clock[env], WAREHOUSE_DELIVERY);
    int delivers = 0;
    for (int64_t place = 0; place < game->goal_count; place++) {
        int64_t goal = game->goals[place], shelf = hall->shelf_at[goal];
        if (!hall->requested[shelf]) continue;
        warehouse_request(game, hall, next_below(&draws, game->shelves - game->requests));
        hall->requested[shelf] = 0;
        warehouse_pay(game, hall, goal, rewards);
        delivers = 1;
    }
    return delivers;
}

ML_EXPORT int64_t warehouse_step(const Warehouse *game) {
    int64_t ends = 0, agents = game->agents;
    if (!actions_exist(game->actions, game->envs * agents, game->choices)) return -1;
    Traffic traffic;
    for (int64_t env = 0; env < game->envs; env++) {
        Hall hall = warehouse_hall_of(game, env);
        const int64_t *actions = game->actions + env * agents;
        double *rewards = game->rewards + env * agents;
        memset(rewards, 0, (size_t)agents * sizeof *rewards);
        memset(game->terminated + env * agents, 0, (size_t)agents);
        game->clock[env]++;
        warehouse_want(game, &hall, actions, &traffic);
        warehouse_settle(&hall, agents, &traffic);
        warehouse_drive(game, &hall, &traffic);
        warehouse_turn_and_toggle(game, &hall, actions, rewards);
        game->idle[env] = warehouse_deliver(game, &hall, env, rewards) ? 0 : game->idle[env] + 1;
        int is_idle = game->max_inactivity_steps && game->idle[env] >= game->max_inactivity_steps;
        game->truncated[env] = game->ended[env] = is_idle || game->clock[env] >= game->horizon;
        ends += game->ended[env];
    }
    return ends;
}

/* Robots begin in different cells, of shelves too. */
static void warehouse_begin(const Warehouse *game, const Hall *hall, int64_t env) {
    int64_t cells = game->rows * game->columns;
    Draws draws = draws_of(game->keys[env], game->episode[env], 0, WAREHOUSE_START);
    memset(hall->robot_at, 0, (size_t)cells * sizeof *hall->robot_at);
    memcpy(hall->shelf_at, game->homes, (size_t)cells * sizeof *hall->shelf_at);
    memset(hall->requested, 0, (size_t)game->shelves + 1);
    for (int64_t number = 0; number < game->agents; number++) {
        int64_t cell = 0, place = next_below(&draws, cells - number);
        for (; cell < cells - 1 && (hall->robot_at[cell] || place--); cell++);
        hall->robots[number] = (Robot){(int32_t)cell, 0, 0, 0, 0};
        hall->robot_at[cell] = (int16_t)(number + 1);
    }
    for (int64_t number = 0; number < game->agents; number++)
        hall->robots[number].heading = (int32_t)next_below(&draws, 4);
    for (int64_t number = 0; number < game->requests; number++)
        warehouse_request(game, hall, next_below(&draws, game->shelves - number));
    game->idle[env] = 0;
}

ML_EXPORT void warehouse_reset(const Warehouse *game, const uint8_t *which) {
    for (int64_t env = 0; env < game->envs; env++) {
        if (which && !which[env]) continue;
        Hall hall = warehouse_hall_of(game, env);
        ML_BEGIN_EPISODE(game, env);
        warehouse_begin(game, &hall, env);
    }
}

ML_INLINE float *warehouse_write_heading(float *out, int64_t heading) {
    for (int64_t place = 0; place < 4; place++) *out++ = place == heading;
    return out;
}

ML_INLINE int warehouse_is_inside(const Warehouse *game, int64_t row, int64_t column) {
    return row >= 0 && row < game->rows && column >= 0 && column < game->columns;
}

/* The robot itself, then the cells around it, row by row. A cell without a robot has the heading "up". */
static void warehouse_observe_cells(const Warehouse *game, const Hall *hall, const Robot *robot, float *out) {
    int64_t row = robot->cell / game->columns, column = robot->cell % game->columns, range = game->sensor_range;
    *out++ = game->across[column];
    *out++ = game->down[row];
    *out++ = robot->shelf != 0;
    out = warehouse_write_heading(out, robot->heading);
    *out++ = game->floor[robot->cell] & WAREHOUSE_HIGHWAY;
    for (int64_t y = row - range; y <= row + range; y++)
        for (int64_t x = column - range; x <= column + range; x++) {
            int64_t inside = warehouse_is_inside(game, y, x), cell = inside ? y * game->columns + x : 0;
            int64_t number = inside ? hall->robot_at[cell] : 0, shelf = inside ? hall->shelf_at[cell] : 0;
            const Robot *other = number ? hall->robots + number - 1 : 0;
            *out++ = other != 0;
            out = warehouse_write_heading(out, other ? other->heading : ROBOT_UP);
            for (int64_t bit = game->msg_bits - 1; bit >= 0; bit--)
                *out++ = (float)(other ? other->message >> bit & 1 : 0);
            *out++ = shelf != 0;
            *out++ = hall->requested[shelf];
        }
}

/* The place in a picture of the hall for a place in a robot's picture, where ahead is up. */
ML_INLINE int64_t warehouse_turned(int64_t heading, int64_t side, int64_t row, int64_t column) {
    int64_t last = side - 1;
    if (heading == ROBOT_DOWN) return (last - row) * side + last - column;
    if (heading == ROBOT_LEFT) return (last - column) * side + row;
    if (heading == ROBOT_RIGHT) return column * side + last - row;
    return row * side + column;
}

/* Five layers around the robot: shelves, requested shelves, robots, goals, and cells without a robot. */
static void warehouse_observe_image(const Warehouse *game, const Hall *hall, const Robot *robot, float *out) {
    int64_t range = game->sensor_range, side = 2 * range + 1, area = side * side;
    int64_t top = robot->cell / game->columns - range, left = robot->cell % game->columns - range;
    int64_t heading = game->is_directional ? robot->heading : ROBOT_UP;
    for (int64_t place = 0; place < area; place++) {
        int64_t source = warehouse_turned(heading, side, place / side, place % side);
        int64_t row = top + source / side, column = left + source % side, cell = row * game->columns + column;
        int inside = warehouse_is_inside(game, row, column), shelf = inside ? hall->shelf_at[cell] : 0;
        int is_taken = inside && hall->robot_at[cell];
        out[place] = shelf != 0;
        out[area + place] = hall->requested[shelf];
        out[2 * area + place] = (float)is_taken;
        out[3 * area + place] = inside && game->floor[cell] & WAREHOUSE_GOAL ? 1 : 0;
        out[4 * area + place] = inside && !is_taken;
    }
    if (!game->has_features) return;
    out = warehouse_write_heading(out + 5 * area, robot->heading);
    *out++ = game->floor[robot->cell] & WAREHOUSE_HIGHWAY;
    *out = robot->shelf != 0;
}

ML_EXPORT void warehouse_observe(const Warehouse *game, const uint8_t *which) {
    for (int64_t env = 0; env < game->envs; env++) {
        if (which && !which[env]) continue;
        Hall hall = warehouse_hall_of(game, env);
        for (int64_t agent = 0; agent < game->agents; agent++) {
            float *out = game->values + (agent * game->envs + env) * game->features;
            (game->is_image ? warehouse_observe_image : warehouse_observe_cells)(game, &hall, hall.robots + agent, out);
        }
    }
}

#endif
