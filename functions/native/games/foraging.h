/* Level-based foraging (Papoudakis et al. 2021), in whole numbers: each step equals the package lbforaging 2.0.0. */
#ifndef ML_FORAGING_H
#define ML_FORAGING_H

#include "draws.h"

/* Python refuses more players. */
#define ML_MOST_PLAYERS 64
#define ML_SPAWN_ATTEMPTS 1000

enum ForagingAction { FORAGING_STAY, FORAGING_NORTH, FORAGING_SOUTH, FORAGING_WEST, FORAGING_EAST, FORAGING_LOAD };
enum ForagingPurpose { FORAGING_PLAYERS, FORAGING_FOOD };

/* A player, or food. Food of level 0 is gathered, or was not spawned. */
typedef struct {
    int32_t row, column, level;
} Forage;

/* State: `players` [E, agents], and `food` [E, foods] in the order of its cells. `spawned` [E] is the sum of the levels
 * of food at the start of the episode. A `max_food_level` of 0 means the sum of the three lowest levels of players.
 * `penalty` is one number. */
#define ML_FORAGING(X, S) \
    ML_GAME(X, S) \
    X(S, int64_t, rows) X(S, int64_t, columns) X(S, int64_t, foods) X(S, int64_t, horizon) X(S, int64_t, sight) \
    X(S, int64_t, min_player_level) X(S, int64_t, max_player_level) X(S, int64_t, min_food_level) \
    X(S, int64_t, max_food_level) X(S, int64_t, force_coop) X(S, int64_t, normalize_reward) \
    X(S, int64_t, observe_agent_levels) X(S, int64_t, grid_observation) X(S, const double *, penalty) \
    X(S, Forage *, players) X(S, Forage *, food) X(S, int64_t *, spawned)

typedef struct {
    ML_FORAGING(ML_MEMBER, Foraging)
} Foraging;

ML_INLINE int forage_is_on(const Forage *things, int64_t count, int64_t row, int64_t column) {
    for (const Forage *thing = things; thing < things + count; thing++)
        if (thing->level && thing->row == row && thing->column == column) return 1;
    return 0;
}

ML_INLINE int64_t forage_apart(int64_t one, int64_t other) { return one < other ? other - one : one - other; }

/* Whether the two are neighbours, or could be loaded from one cell. */
static int forage_are_near(const Forage *food, int64_t row, int64_t column) {
    int64_t rows = forage_apart(food->row, row), columns = forage_apart(food->column, column);
    return (rows <= 1 && columns <= 1) || (rows <= 2 && !columns) || (!rows && columns <= 2);
}

ML_INLINE int forage_is_after(const Forage *food, int64_t row, int64_t column) {
    return food->row > row || (food->row == row && food->column > column);
}

static int64_t forage_three_lowest_levels(const Foraging *game, const Forage *players) {
    int64_t lowest[3] = {INT32_MAX, INT32_MAX, INT32_MAX}, sum = 0;
    for (int64_t player = 0; player < game->agents; player++)
        for (int64_t place = 0, level = players[player].level; place < 3; place++) {
            int64_t higher = level < lowest[place] ? lowest[place] : level;
            lowest[place] = lesser(level, lowest[place]);
            level = higher;
        }
    for (int64_t place = 0; place < lesser(3, game->agents); place++) sum += lowest[place];
    return sum;
}

static void forage_spawn_players(const Foraging *game, int64_t env, Forage *players) {
    Draws draws = draws_of(game->keys[env], game->episode[env], 0, FORAGING_PLAYERS);
    for (int64_t player = 0; player < game->agents; player++) {
        int64_t row = 0, column = 0;
        for (int64_t attempt = 0; attempt < ML_SPAWN_ATTEMPTS; attempt++) {
            row = next_below(&draws, game->rows);
            column = next_below(&draws, game->columns);
            if (!forage_is_on(players, player, row, column)) break;
        }
        int64_t level = next_between(&draws, game->min_player_level, game->max_player_level);
        players[player] = (Forage){(int32_t)row, (int32_t)column, (int32_t)level};
    }
}

static void forage_spawn_food(const Foraging *game, int64_t env, const Forage *players, Forage *food) {
    Draws draws = draws_of(game->keys[env], game->episode[env], 0, FORAGING_FOOD);
    int64_t high = game->max_food_level ? game->max_food_level : forage_three_lowest_levels(game, players);
    int64_t low = game->force_coop ? high : game->min_food_level, count = 0;
    memset(food, 0, (size_t)game->foods * sizeof *food);
    game->spawned[env] = 0;
    for (int64_t attempt = 0; attempt < ML_SPAWN_ATTEMPTS && count < game->foods; attempt++) {
        int64_t row = next_between(&draws, 1, game->rows - 2), column = next_between(&draws, 1, game->columns - 2);
        int is_free = !forage_is_on(players, game->agents, row, column);
        for (int64_t place = 0; place < count; place++) is_free &= !forage_are_near(food + place, row, column);
        if (!is_free) continue;
        int64_t level = low == high ? high : next_between(&draws, low, high), place = count++;
        for (; place && forage_is_after(food + place - 1, row, column); place--) food[place] = food[place - 1];
        food[place] = (Forage){(int32_t)row, (int32_t)column, (int32_t)level};
        game->spawned[env] += level;
    }
}

/* The cell where a player wants to be. Food and walls stop it, players do not. */
static int64_t forage_wanted_cell(const Foraging *game, const Forage *food, const Forage *player, int64_t action) {
    int64_t row = player->row + (action == FORAGING_SOUTH) - (action == FORAGING_NORTH);
    int64_t column = player->column + (action == FORAGING_EAST) - (action == FORAGING_WEST);
    int is_inside = row >= 0 && row < game->rows && column >= 0 && column < game->columns;
    if (is_inside && !forage_is_on(food, game->foods, row, column)) return row * game->columns + column;
    return player->row * game->columns + player->column;
}

/* A player moves if no other player wants the same cell. A player that stands wants its own cell. So two players can
 * exchange their cells, and a player can enter the cell of another player that fails to leave it. */
static void forage_move_players(const Foraging *game, const Forage *food, Forage *players, const int64_t *actions) {
    int64_t wanted[ML_MOST_PLAYERS], agents = game->agents;
    for (int64_t player = 0; player < agents; player++)
        wanted[player] = forage_wanted_cell(game, food, players + player, actions[player]);
    for (int64_t player = 0; player < agents; player++) {
        int others = 0;
        for (int64_t other = 0; other < agents; other++) others += wanted[other] == wanted[player];
        if (others > 1) continue;
        players[player].row = (int32_t)(wanted[player] / game->columns);
        players[player].column = (int32_t)(wanted[player] % game->columns);
    }
}

ML_INLINE int forage_loads(const Forage *player, int64_t action, const Forage *food) {
    int64_t distance = forage_apart(player->row, food->row) + forage_apart(player->column, food->column);
    return action == FORAGING_LOAD && distance == 1;
}

/* No cell touches two foods, so any order gives the same. */
static void forage_load_food(const Foraging *game, int64_t env, Forage *food, const Forage *players,
                             const int64_t *actions, double *rewards) {
    for (Forage *meal = food; meal < food + game->foods; meal++) {
        if (!meal->level) continue;
        int64_t levels = 0;
        for (int64_t player = 0; player < game->agents; player++)
            if (forage_loads(players + player, actions[player], meal)) levels += players[player].level;
        for (int64_t player = 0; levels && player < game->agents; player++) {
            if (!forage_loads(players + player, actions[player], meal)) continue;
            double share = (double)((int64_t)players[player].level * meal->level);
            if (game->normalize_reward) share /= (double)(levels * game->spawned[env]);
            rewards[player] = levels < meal->level ? 0 - *game->penalty : share;
        }
        if (levels >= meal->level) meal->level = 0;
    }
}

/* Whether food is left. An episode ends in its first step if no place for food was found. */
static int forage_goes_on(const Foraging *game, int64_t env) {
    const Forage *food = game->food + env * game->foods;
    for (const Forage *meal = food; meal < food + game->foods; meal++)
        if (meal->level) return 1;
    return game->clock[env] == 0;
}

/* The window of a player begins at the border of the field if the border is nearer than `sight`. The player sees food
 * at most `sight` cells away, but players in the window's first 2 * sight + 1 rows and columns. */
static void forage_observe_list(const Foraging *game, const Forage *food, const Forage *players, int64_t observer,
                                float *out) {
    const Forage *own = players + observer;
    int64_t sight = game->sight, first_row = own->row - lesser(sight, own->row);
    int64_t first_column = own->column - lesser(sight, own->column), shown = 0, width = 2 + game->observe_agent_levels;
    for (const Forage *meal = food; meal < food + game->foods; meal++) {
        int is_far = forage_apart(meal->row, own->row) > sight || forage_apart(meal->column, own->column) > sight;
        if (!meal->level || is_far) continue;
        out[3 * shown] = (float)(meal->row - first_row);
        out[3 * shown + 1] = (float)(meal->column - first_column);
        out[3 * shown++ + 2] = (float)meal->level;
    }
    for (; shown < game->foods; shown++) out[3 * shown] = out[3 * shown + 1] = -1, out[3 * shown + 2] = 0;
    out += 3 * game->foods;
    shown = 1;
    for (int64_t player = 0; player < game->agents; player++) {
        int64_t row = players[player].row - first_row, column = players[player].column - first_column;
        if (row < 0 || column < 0 || row > 2 * sight || column > 2 * sight) continue;
        float *entry = out + width * (player == observer ? 0 : shown++);
        entry[0] = (float)row, entry[1] = (float)column;
        if (game->observe_agent_levels) entry[2] = (float)players[player].level;
    }
    for (float *entry = out + width * shown; entry < out + width * game->agents; entry += width) {
        entry[0] = entry[1] = -1;
        if (game->observe_agent_levels) entry[2] = 0;
    }
}

/* Three layers [2 * sight + 1, 2 * sight + 1] around a player: levels of players, levels of food, and free cells. */
static void forage_observe_grid(const Foraging *game, const Forage *food, const Forage *players, int64_t observer,
                                float *out) {
    int64_t sight = game->sight, side = 2 * sight + 1, cells = side * side, count = game->foods + game->agents;
    int64_t first_row = players[observer].row - sight, first_column = players[observer].column - sight;
    memset(out, 0, (size_t)(2 * cells) * sizeof *out);
    for (int64_t cell = 0; cell < cells; cell++) {
        int64_t row = first_row + cell / side, column = first_column + cell % side;
        out[2 * cells + cell] = row >= 0 && row < game->rows && column >= 0 && column < game->columns;
    }
    for (int64_t place = 0; place < count; place++) {
        const Forage *thing = place < game->foods ? food + place : players + place - game->foods;
        int64_t row = thing->row - first_row, column = thing->column - first_column;
        if (!thing->level || row < 0 || column < 0 || row >= side || column >= side) continue;
        int is_food = place < game->foods;
        out[is_food * cells + row * side + column] = (float)(is_food || game->observe_agent_levels ? thing->level : 1);
        out[2 * cells + row * side + column] = 0;
    }
}

ML_EXPORT int64_t foraging_step(const Foraging *game) {
    int64_t ends = 0, agents = game->agents;
    if (!actions_exist(game->actions, game->envs * agents, game->choices)) return -1;
    for (int64_t env = 0; env < game->envs; env++) {
        Forage *players = game->players + env * agents, *food = game->food + env * game->foods;
        const int64_t *actions = game->actions + env * agents;
        double *rewards = game->rewards + env * agents;
        memset(rewards, 0, (size_t)agents * sizeof *rewards);
        forage_move_players(game, food, players, actions);
        forage_load_food(game, env, food, players, actions, rewards);
        int is_late = ++game->clock[env] >= game->horizon, goes_on = forage_goes_on(game, env);
        memset(game->terminated + env * agents, !goes_on, (size_t)agents);
        game->truncated[env] = goes_on && is_late;
        game->ended[env] = !goes_on || is_late;
        ends += game->ended[env];
    }
    return ends;
}

ML_EXPORT void foraging_reset(const Foraging *game, const uint8_t *which) {
    for (int64_t env = 0; env < game->envs; env++) {
        if (which && !which[env]) continue;
        Forage *players = game->players + env * game->agents;
        ML_BEGIN_EPISODE(game, env);
        forage_spawn_players(game, env, players);
        forage_spawn_food(game, env, players, game->food + env * game->foods);
    }
}

ML_EXPORT void foraging_observe(const Foraging *game, const uint8_t *which) {
    for (int64_t env = 0; env < game->envs; env++) {
        if (which && !which[env]) continue;
        const Forage *players = game->players + env * game->agents, *food = game->food + env * game->foods;
        int goes_on = forage_goes_on(game, env);
        memset(game->alive + env * game->agents, goes_on, (size_t)game->agents);
        for (int64_t agent = 0; agent < game->agents; agent++) {
            float *out = game->values + (agent * game->envs + env) * game->features;
            if (!goes_on)
                memset(out, 0, (size_t)game->features * sizeof *out);
            else
                (game->grid_observation ? forage_observe_grid : forage_observe_list)(game, food, players, agent, out);
        }
    }
}

#endif
