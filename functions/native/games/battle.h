/* Battles of two armies in the plane: JaxMARL's SMAX 0.2.0 (Rutherford et al., 2024), with another order of operations.
 *
 * Units are allies, then enemies. Units without health fill the last block. A set of units has one bit for each unit. Sums
 * go through units in their order, and no operation is fused.
 */
#ifndef ML_BATTLE_H
#define ML_BATTLE_H

#include "game.h"

/* Sizes: units of both sides, without and with the padding, steps of the world in one step of the agents, and the time
 * limit. Then options, 0 or 1. Tables: traits [TRAITS, ML_KINDS], `numbers` [NUMBERS], kinds of units [units] unless they
 * are drawn, and directions [ML_SECTIONS, 2] between the sections of conic observations. State [E, padded]: enemies go to
 * `goal_x`, `goal_y` if they see no ally. `orders` are latest actions, `targets` the enemies' latest targets or -1. */
#define ML_BATTLE(X, S)                                                                                                  \
    ML_GAME(X, S) X(S, int64_t, units) X(S, int64_t, padded) X(S, int64_t, world_steps) X(S, int64_t, limit)             \
    X(S, int64_t, shoots) X(S, int64_t, aims_at_random) X(S, int64_t, sees_actions) X(S, int64_t, is_conic)              \
    X(S, int64_t, walls_kill) X(S, int64_t, pays_victory) X(S, int64_t, is_earlier) X(S, int64_t, is_drawn)              \
    X(S, const float *, traits) X(S, const float *, numbers) X(S, const int8_t *, army) X(S, const float *, borders)     \
    X(S, float *, x) X(S, float *, y) X(S, float *, health) X(S, float *, cooldown) X(S, float *, goal_x)                \
    X(S, float *, goal_y) X(S, int32_t *, orders) X(S, int8_t *, kinds) X(S, int8_t *, targets)
typedef struct {
    ML_BATTLE(ML_MEMBER, Battle)
} Battle;

/* Traits of a kind of units. `WAY` is the way in a step of the world. The least squares of distances out of range and out
 * of sight are `SQUARED_RANGE` and `SQUARED_SIGHT`. `RELOADING` is the time between shots in seconds. */
enum { WAY, DAMAGE, SQUARED_RANGE, SQUARED_SIGHT, SIGHT, RADIUS, WHOLE_HEALTH, RELOADING, TRAITS };
enum { TIME, WIDTH, HEIGHT, BONUS, NUMBERS };
/* Purposes of random words. */
enum { START, GROUP, KIND, TARGET, FOLLOWED, DEVIATION };
/* Actions: up, right, down, left, stop, and then one for each unit of the other side. */
enum { UP, RIGHT, DOWN, LEFT, STOP, ML_MOVES };

#define ML_KINDS 6
#define ML_UNITS 64
#define ML_SHOWN 13
#define ML_OWN 10
#define ML_COOLDOWN 6
#define ML_SECTIONS 32
#define ML_UNITS_OF_SECTION 2
/* Positions are drawn so far from a centre. */
#define ML_SCATTER 2.0f
#define ML_LEAST_DISTANCE 1e-6f

typedef uint64_t Units;

/* An environment of a game. */
typedef struct {
    const Battle *game;
    int64_t env;
    float *x, *y, *health, *cooldown, *goal_x, *goal_y;
    int32_t *orders;
    int8_t *kinds, *targets;
} Field;

/* A unit in neighbouring environments, one in each lane. `along` and `up` are the way in a step of the world. The unit
 * shoots at `aims` in the lanes of `shooters`. `damage`, `push_x` and `push_y` are sums, zero between their uses. The
 * radius of units that are in nobody's way is NaN: they touch nobody. */
typedef struct {
    float x[ML_LANES], y[ML_LANES], health[ML_LANES], cooldown[ML_LANES], along[ML_LANES], up[ML_LANES];
    float radius[ML_LANES], damage[ML_LANES], push_x[ML_LANES], push_y[ML_LANES];
    uint32_t shooters, fired;
    int8_t aims[ML_LANES];
} __attribute__((aligned(64))) Unit;

/* The environments from `env` on. Lanes without an environment are zero. */
typedef struct {
    const Battle *game;
    int64_t env;
    vi everybody; /* set if the dead move and collide too */
    Unit units[ML_UNITS];
} Group;

static Field field_of(const Battle *game, int64_t env) {
    int64_t at = env * game->padded;
    return (Field){game, env, game->x + at, game->y + at, game->health + at, game->cooldown + at, game->goal_x + at,
                   game->goal_y + at, game->orders + at, game->kinds + at, game->targets + at};
}

ML_INLINE float trait(const Field *field, int64_t index, int64_t unit) {
    return field->game->traits[index * ML_KINDS + field->kinds[unit]];
}
ML_INLINE Units unit_bit(int64_t unit) { return (Units)1 << unit; }
ML_INLINE int64_t first_of(Units set) { return __builtin_ctzll(set); }
ML_INLINE int64_t count_of(Units set) { return __builtin_popcountll(set); }
ML_INLINE Units allies_of(const Battle *game) { return unit_bit(game->agents) - 1; }

/* The units with a number below the limit. */
ML_INLINE Units below(const float *numbers, int64_t padded, float limit) {
    Units set = 0;
    for (int64_t place = 0; place < padded; place += ML_LANES)
        set |= (Units)lane_bits(load(numbers + place) < broadcast(limit)) << place;
    return set;
}

ML_INLINE Units living_units(const Field *field) {
    Units set = 0;
    for (int64_t place = 0; place < field->game->padded; place += ML_LANES)
        set |= (Units)lane_bits(load(field->health + place) > broadcast(0)) << place;
    return set;
}

/* Squares of the distances of all units from one. */
ML_INLINE void measure(const Field *field, int64_t unit, float *squares) {
    vf x = broadcast(field->x[unit]), y = broadcast(field->y[unit]);
    for (int64_t place = 0; place < field->game->padded; place += ML_LANES) {
        vf along = load(field->x + place) - x, up = load(field->y + place) - y;
        store(squares + place, along * along + up * up);
    }
}

ML_INLINE float way_along(int32_t order) { return (float)((order == RIGHT) - (order == LEFT)); }
ML_INLINE float way_up(int32_t order) { return (float)((order == UP) - (order == DOWN)); }

static uint32_t battle_word(const Field *field, int64_t purpose, int64_t index) {
    return ML_WORD(field->game, field->env, purpose, index);
}

static int64_t drawn_from(const Field *field, Units set, int64_t purpose, int64_t index) {
    for (int64_t left = draw_below(battle_word(field, purpose, index), count_of(set)); left; left--) set &= set - 1;
    return first_of(set);
}

/* The action that leads most in this direction, the first of equal ones. */
static int32_t direction(float along, float up) {
    float lead[4] = {up, along, -up, -along};
    int32_t best = 0;
    for (int32_t action = 1; action < 4; action++)
        if (lead[action] > lead[best]) best = action;
    return best;
}

/* The target of an enemy, or -1: its last target while that is shootable, otherwise the nearest target or a random one. */
static int64_t chosen_target(const Field *field, int64_t unit, Units shootable, const float *squares) {
    int64_t nearest = field->targets[unit];
    if (nearest >= 0 && shootable >> nearest & 1) return nearest;
    if (!shootable) return -1;
    if (field->game->aims_at_random) return drawn_from(field, shootable, TARGET, unit);
    nearest = 63 - __builtin_clzll(shootable);
    for (Units left = shootable ^ unit_bit(nearest); left;) { /* enemies count units from the last */
        int64_t other = 63 - __builtin_clzll(left);
        left ^= unit_bit(other);
        if (squares[other] < squares[nearest]) nearest = other;
    }
    return nearest;
}

/* The action of an enemy: JaxMARL's script. */
static int32_t scripted_action(const Field *field, int64_t unit, Units living) {
    const Battle *game = field->game;
    float squares[ML_UNITS];
    measure(field, unit, squares);
    int is_living = living >> unit & 1;
    Units visible = is_living ? below(squares, game->padded, trait(field, SQUARED_SIGHT, unit)) & living & allies_of(game) : 0;
    Units shootable = visible & below(squares, game->padded, trait(field, SQUARED_RANGE, unit));
    int64_t target = chosen_target(field, unit, shootable, squares);
    field->targets[unit] = (int8_t)target;
    if (target >= 0 && game->shoots) return (int32_t)(ML_MOVES + game->agents - 1 - target);
    /* The dead see nothing and believe that they are in the corner. They move only by the earlier rules. */
    float x = is_living ? field->x[unit] : 0, y = is_living ? field->y[unit] : 0;
    if (!visible) return direction(field->goal_x[unit] - x, field->goal_y[unit] - y);
    int64_t followed = drawn_from(field, visible, FOLLOWED, unit);
    return direction(field->x[followed] - x, field->y[followed] - y);
}

static void begin_group(Group *group, const Battle *game, int64_t env, int64_t everybody) {
    memset(group->units, 0, (size_t)game->units * sizeof(Unit));
    group->game = game;
    group->env = env;
    group->everybody = (vi){0} - (int32_t)everybody;
}

/* Copies an environment and its orders into a lane. */
static void join(Group *group, const Field *field) {
    int64_t lane = field->env - group->env, agents = field->game->agents;
    for (int64_t place = 0; place < field->game->units; place++) {
        Unit *unit = group->units + place;
        int32_t order = field->orders[place], rank = order - ML_MOVES;
        float way = trait(field, WAY, place);
        unit->x[lane] = field->x[place];
        unit->y[lane] = field->y[place];
        unit->health[lane] = field->health[place];
        unit->cooldown[lane] = field->cooldown[place];
        unit->along[lane] = way_along(order) * way;
        unit->up[lane] = way_up(order) * way;
        unit->radius[lane] = trait(field, RADIUS, place);
        unit->shooters |= (uint32_t)(rank >= 0) << lane;
        unit->aims[lane] = (int8_t)(place < agents ? agents + rank : agents - 1 - rank);
    }
}

/* Copies a lane to its environment. Returns the sum of the shares of health that the enemies lost. */
static float leave(const Group *group, const Field *field) {
    int64_t lane = field->env - group->env;
    float lost = 0;
    for (int64_t place = 0; place < group->game->units; place++) {
        const Unit *unit = group->units + place;
        if (place >= group->game->agents)
            lost += (field->health[place] - unit->health[lane]) / trait(field, WHOLE_HEALTH, place);
        field->x[place] = unit->x[lane];
        field->y[place] = unit->y[lane];
        field->health[place] = unit->health[lane];
        field->cooldown[place] = unit->cooldown[lane];
    }
    return lost;
}

ML_INLINE vi is_positive(const float *numbers) { return load(numbers) > broadcast(0); }

/* Adds the damage of a unit's shots. */
static void fire(Group *group, int64_t place) {
    Unit *unit = group->units + place;
    unit->fired = 0;
    uint32_t ready = unit->shooters & lane_bits(is_positive(unit->health) & ~is_positive(unit->cooldown));
    for (; ready; ready &= ready - 1) {
        int64_t lane = __builtin_ctz(ready);
        Unit *aim = group->units + unit->aims[lane];
        Field field = field_of(group->game, group->env + lane);
        float along = unit->x[lane] - aim->x[lane], up = unit->y[lane] - aim->y[lane];
        if (!(aim->health[lane] > 0 && along * along + up * up < trait(&field, SQUARED_RANGE, place))) continue;
        aim->damage[lane] += trait(&field, DAMAGE, place);
        unit->fired |= (uint32_t)1 << lane;
    }
}

ML_INLINE vf moved(const float *before, const float *way, float size, vi movable) {
    vf after = lanes_max(lanes_min(load(before) + load(way), broadcast(size)), broadcast(0));
    return select_lanes(movable, after, load(before));
}

/* Moves a unit, takes its health, and reloads its weapon. A unit that touches a wall dies. */
static void advance_unit(const Group *group, Unit *unit) {
    float width = group->game->numbers[WIDTH], height = group->game->numbers[HEIGHT];
    vi movable = is_positive(unit->health) | group->everybody;
    vf x = moved(unit->x, unit->along, width, movable), y = moved(unit->y, unit->up, height, movable);
    vi outside = (lanes_min(x, y) <= broadcast(0)) | (x >= broadcast(width)) | (y >= broadcast(height));
    vi killed = outside & ((vi){0} - (int32_t)group->game->walls_kill);
    vf health = lanes_max(load(unit->health) - load(unit->damage), broadcast(0));
    store(unit->x, x);
    store(unit->y, y);
    health = select_lanes(killed, broadcast(0), health);
    vi solid = (health > broadcast(0)) | group->everybody;
    store(unit->health, health);
    store(unit->radius, select_lanes(solid, load(unit->radius), broadcast(__builtin_nanf(""))));
    store(unit->damage, broadcast(0));
    store(unit->cooldown, load(unit->cooldown) - broadcast(group->game->numbers[TIME]));
}

/* Units that overlap push each other away, all from where they were. Zeros in a sum change no bits. */
static void push_units(Group *group) {
    Unit *end = group->units + group->game->units;
    for (Unit *unit = group->units; unit < end; unit++) {
        vf x = load(unit->x), y = load(unit->y), radius = load(unit->radius);
        vf push_x = load(unit->push_x), push_y = load(unit->push_y);
        for (Unit *other = unit + 1; other < end; other++) {
            vf along = x - load(other->x), up = y - load(other->y), reach = radius + load(other->radius);
            vf squares = along * along + up * up;
            vi touching = squares < reach * reach;
            if (!lane_bits(touching)) continue;
            vf overlap = reach / (square_root(squares) + broadcast(ML_LEAST_DISTANCE)) - broadcast(1);
            overlap = as_floats(as_ints(lanes_max(overlap, broadcast(0))) & touching);
            push_x += along * overlap;
            push_y += up * overlap;
            store(other->push_x, load(other->push_x) - along * overlap);
            store(other->push_y, load(other->push_y) - up * overlap);
        }
        store(unit->x, x + push_x * broadcast(0.5f));
        store(unit->y, y + push_y * broadcast(0.5f));
        store(unit->push_x, broadcast(0));
        store(unit->push_y, broadcast(0));
    }
}

static void advance_world(Group *group, int64_t world_step) {
    const Battle *game = group->game;
    float time = game->numbers[TIME];
    for (int64_t place = 0; place < game->units; place++) fire(group, place);
    for (int64_t place = 0; place < game->units; place++) {
        Unit *unit = group->units + place;
        advance_unit(group, unit);
        for (uint32_t left = unit->fired; left; left &= left - 1) {
            int64_t lane = __builtin_ctz(left);
            Field field = field_of(game, group->env + lane);
            float share = draw_unit(battle_word(&field, DEVIATION, world_step * game->units + place));
            unit->cooldown[lane] = trait(&field, RELOADING, place) + (share * (3 * time) - time);
        }
    }
    push_units(group);
}

static float team_reward(const Battle *game, float lost, Units allies, Units enemies) {
    float reward = game->pays_victory ? 0 : lost / (float)(game->units - game->agents);
    if (allies && !enemies) reward += game->numbers[BONUS];
    if (!allies && enemies && game->pays_victory) reward -= game->numbers[BONUS];
    return reward;
}

/* Writes the results of a step of an environment. Returns whether its episode ended. */
static int settle(const Field *field, float lost, Units earlier) {
    const Battle *game = field->game;
    int64_t env = field->env;
    Units living = living_units(field), allies = living & allies_of(game), enemies = living & ~allies_of(game);
    int is_over = !allies || !enemies, is_cut = !is_over && game->clock[env] >= game->limit;
    earlier &= allies_of(game);
    double share = (double)team_reward(game, lost, allies, enemies) / (double)count_of(earlier);
    for (int64_t agent = 0; agent < game->agents; agent++) {
        int was_alive = earlier >> agent & 1;
        game->rewards[env * game->agents + agent] = was_alive ? share : 0;
        game->terminated[env * game->agents + agent] = was_alive && (is_over || !(allies >> agent & 1));
    }
    game->truncated[env] = (uint8_t)is_cut;
    game->ended[env] = (uint8_t)(is_over || is_cut);
    game->metrics[env] = allies && !enemies;
    game->clock[env]++;
    return is_over || is_cut;
}

/* The orders of all units: the agents' actions and the enemies' script. */
static void take_orders(const Field *field) {
    const Battle *game = field->game;
    Units living = living_units(field);
    for (int64_t agent = 0; agent < game->agents; agent++)
        field->orders[agent] = (int32_t)game->actions[field->env * game->agents + agent];
    for (int64_t unit = game->agents; unit < game->units; unit++)
        field->orders[unit] = scripted_action(field, unit, living);
}

ML_EXPORT int64_t battle_step(const Battle *game) {
    if (!actions_exist(game->actions, game->envs * game->agents, game->choices)) return -1;
    int64_t ended = 0;
    for (int64_t first = 0; first < game->envs; first += ML_LANES) {
        int64_t end = lesser(first + ML_LANES, game->envs);
        Group group;
        begin_group(&group, game, first, game->is_earlier);
        for (int64_t env = first; env < end; env++) {
            Field field = field_of(game, env);
            take_orders(&field);
            join(&group, &field);
        }
        for (int64_t world_step = 0; world_step < game->world_steps; world_step++) advance_world(&group, world_step);
        for (int64_t env = first; env < end; env++) {
            Field field = field_of(game, env);
            Units living = living_units(&field);
            ended += settle(&field, leave(&group, &field), living);
        }
    }
    return ended;
}

/* A number so far from the centre as the `index`-th draw says. */
static float scattered(const Field *field, float centre, int64_t index) {
    return centre + (draw_unit(battle_word(field, START, index)) * (2 * ML_SCATTER) - ML_SCATTER);
}

/* Both sides in separate squares. */
static void place_opposite(const Field *field) {
    const Battle *game = field->game;
    for (int64_t unit = 0; unit < game->units; unit++) {
        float quarter = game->numbers[WIDTH] / 4;
        field->x[unit] = scattered(field, unit < game->agents ? quarter : quarter * 3, 2 * unit);
        field->y[unit] = scattered(field, game->numbers[HEIGHT] / 2, 2 * unit + 1);
    }
}

/* Allies anywhere in the left half, and the enemies, who are as many, as their mirror images. */
static void place_mirrored(const Field *field) {
    const Battle *game = field->game;
    float width = game->numbers[WIDTH], height = game->numbers[HEIGHT];
    for (int64_t unit = 0; unit < game->agents; unit++) {
        int64_t image = game->agents + unit;
        field->x[unit] = draw_unit(battle_word(field, START, 2 * unit)) * (width / 2);
        field->y[unit] = draw_unit(battle_word(field, START, 2 * unit + 1)) * height;
        field->x[image] = width - field->x[unit];
        field->y[image] = field->y[unit];
    }
}

/* One side is in the centre. Each unit of the other side is in one of four groups between the corners and the centre. Units
 * of a group may be off the map, where the first step kills them. */
static void place_around(const Field *field, int allies_are_inside) {
    const Battle *game = field->game;
    float x = game->numbers[WIDTH] / 2, y = game->numbers[HEIGHT] / 2;
    for (int64_t unit = 0; unit < game->units; unit++) {
        int64_t group = draw_below(battle_word(field, GROUP, 8 + unit), 4);
        float share = draw_unit(battle_word(field, GROUP, 4 + group));
        int is_inside = (unit < game->agents) == allies_are_inside;
        float edge_x = group & 2 ? game->numbers[WIDTH] : 0, edge_y = group & 1 ? game->numbers[HEIGHT] : 0;
        field->x[unit] = scattered(field, is_inside ? x : share * x + (1 - share) * edge_x, 2 * unit);
        field->y[unit] = scattered(field, is_inside ? y : share * y + (1 - share) * edge_y, 2 * unit + 1);
    }
}

static void begin_battle(const Field *field) {
    const Battle *game = field->game;
    ML_BEGIN_EPISODE(game, field->env);
    for (int64_t unit = 0; unit < game->units; unit++) {
        int64_t ally = unit < game->agents ? unit : unit - game->agents; /* drawn armies are equal */
        field->kinds[unit] =
            game->is_drawn ? (int8_t)draw_below(battle_word(field, KIND, ally), ML_KINDS) : game->army[unit];
        field->health[unit] = trait(field, WHOLE_HEALTH, unit);
        field->cooldown[unit] = 0;
        field->orders[unit] = STOP;
        field->targets[unit] = -1;
    }
    uint32_t is_mirrored = battle_word(field, GROUP, 0), is_inside = battle_word(field, GROUP, 1);
    if (!game->is_drawn)
        place_opposite(field);
    else if (draw_below(is_mirrored, 2))
        place_mirrored(field);
    else
        place_around(field, (int)draw_below(is_inside, 2));
    Group group;
    begin_group(&group, game, field->env, 1);
    join(&group, field);
    push_units(&group);
    leave(&group, field);
    for (int64_t unit = 0; unit < game->units; unit++) {
        float x = game->numbers[WIDTH] / 2, y = game->numbers[HEIGHT] / 2;
        field->goal_x[unit] = x - (field->x[unit] - x);
        field->goal_y[unit] = y - (field->y[unit] - y);
    }
}

ML_EXPORT void battle_reset(const Battle *game, const uint8_t *which) {
    for (int64_t env = 0; env < game->envs; env++) {
        Field field = field_of(game, env);
        if (!which || which[env]) begin_battle(&field);
    }
}

/* As observations show it. */
static float shown_cooldown(const Field *field, int64_t unit) {
    float share = field->cooldown[unit];
    if (field->game->is_earlier) return share;
    share /= trait(field, RELOADING, unit);
    share = share < 0 ? 0 : share;
    return share > 1 ? 1 : share;
}

/* Writes the features of a unit, without its relative position, into a block. Its place on the map fills the block. */
static void describe(const Field *field, int64_t unit, float *block) {
    const Battle *game = field->game;
    int32_t order = field->orders[unit];
    int is_ally = unit < game->agents;
    float actions = (float)(ML_MOVES - 1 + (is_ally ? game->units - game->agents : game->agents));
    memset(block, 0, ML_BLOCK * sizeof *block);
    block[0] = field->health[unit] / trait(field, WHOLE_HEALTH, unit);
    if (is_ally || game->sees_actions) {
        float target = order < ML_MOVES ? 0 : (float)order;
        block[3] = way_along(order);
        block[4] = way_up(order);
        block[5] = game->is_earlier ? target : target / actions;
    }
    block[ML_COOLDOWN] = shown_cooldown(field, unit);
    block[ML_COOLDOWN + 1 + field->kinds[unit]] = 1;
    block[ML_SHOWN] = field->x[unit] / game->numbers[WIDTH];
    block[ML_SHOWN + 1] = field->y[unit] / game->numbers[HEIGHT];
}

/* Writes the own features of a unit. In the global state the cooldown is in seconds. */
ML_INLINE void describe_self(const float *block, float cooldown, float *own) {
    copy(own + 3, block + ML_COOLDOWN, ML_OWN - 3);
    own[0] = block[0];
    own[1] = block[ML_SHOWN];
    own[2] = block[ML_SHOWN + 1];
    own[3] = cooldown;
}

/* The section of a direction, or -1 on a border. */
static int64_t section_of(const Battle *game, float along, float up) {
    const float *borders = game->borders;
    for (int64_t section = 0; section < ML_SECTIONS; section++) {
        const float *from = borders + 2 * section, *to = borders + 2 * ((section + 1) % ML_SECTIONS);
        if (from[0] * up - from[1] * along > 0 && to[0] * up - to[1] * along < 0) return section;
    }
    return -1;
}

/* The first two units in sight in each section, dead ones too. The first ally is never among them: JaxMARL's test of
 * places is false for place 0. */
static void show_cones(const Battle *game, const float *blocks, Units visible, const float *along, const float *up,
                       float *values) {
    int64_t counts[ML_SECTIONS] = {0}, count = ML_SECTIONS * ML_UNITS_OF_SECTION * ML_SHOWN;
    memset(values, 0, bytes(count));
    for (Units left = visible & ~(Units)1; left; left &= left - 1) {
        int64_t unit = first_of(left), section = section_of(game, along[unit], up[unit]);
        if (section < 0 || counts[section] == ML_UNITS_OF_SECTION) continue;
        float *place = values + (section * ML_UNITS_OF_SECTION + counts[section]++) * ML_SHOWN;
        copy(place, blocks + unit * ML_BLOCK, ML_SHOWN);
        place[1] = along[unit];
        place[2] = up[unit];
    }
}

/* Copies a block for each other unit, zeros for an invisible one. The next unit overwrites the rest of a block. */
static void show_units(const Battle *game, int64_t agent, const float *blocks, Units visible, const float *along,
                       const float *up, float *values) {
    static const float nothing[ML_BLOCK];
    for (int64_t unit = 0; unit < game->units; unit++) {
        if (unit == agent) continue;
        copy(values, visible >> unit & 1 ? blocks + unit * ML_BLOCK : nothing, ML_BLOCK);
        values[1] = along[unit];
        values[2] = up[unit];
        values += ML_SHOWN;
    }
}

/* Writes the observation of a living agent, and its legal actions. Cones show the dead too. */
static void observe_battle(const Field *field, int64_t agent, Units living, const float *blocks, float *values,
                           uint8_t *mask) {
    const Battle *game = field->game;
    float along[ML_UNITS], up[ML_UNITS];
    vf x = broadcast(field->x[agent]), y = broadcast(field->y[agent]), sight = broadcast(trait(field, SIGHT, agent));
    vf squared_sight = broadcast(trait(field, SQUARED_SIGHT, agent));
    vf squared_range = broadcast(trait(field, SQUARED_RANGE, agent));
    Units visible = 0, shootable = 0;
    for (int64_t place = 0; place < game->padded; place += ML_LANES) {
        vf over = load(field->x + place) - x, across = load(field->y + place) - y;
        vf squares = over * over + across * across;
        vi seen = (squares < squared_sight) & (is_positive(field->health + place) | ((vi){0} - (int32_t)game->is_conic));
        store(along + place, as_floats(as_ints(over / sight) & seen));
        store(up + place, as_floats(as_ints(across / sight) & seen));
        visible |= (Units)lane_bits(seen) << place;
        shootable |= (Units)lane_bits(squares < squared_range) << place;
    }
    if (game->is_conic)
        show_cones(game, blocks, visible & (unit_bit(game->units) - 1) & ~unit_bit(agent), along, up, values);
    else
        show_units(game, agent, blocks, visible, along, up, values);
    const float *block = blocks + agent * ML_BLOCK;
    describe_self(block, block[ML_COOLDOWN], values + game->features - ML_OWN);
    shootable &= living;
    memset(mask, 1, ML_MOVES);
    for (int64_t unit = game->agents; unit < game->units; unit++)
        mask[ML_MOVES + unit - game->agents] = shootable >> unit & 1;
}

static void observe_world(const Field *field, Units living, const float *blocks) {
    const Battle *game = field->game;
    float *state = game->state + field->env * game->state_size, *teams = state + game->units * ML_OWN;
    for (int64_t unit = 0; unit < game->units; unit++) {
        if (living >> unit & 1)
            describe_self(blocks + unit * ML_BLOCK, field->cooldown[unit], state + unit * ML_OWN);
        else
            memset(state + unit * ML_OWN, 0, bytes(ML_OWN));
        teams[unit] = unit >= game->agents;
        teams[game->units + unit] = field->kinds[unit];
    }
}

ML_EXPORT void battle_observe(const Battle *game, const uint8_t *which) {
    float blocks[ML_UNITS * ML_BLOCK];
    for (int64_t env = 0; env < game->envs; env++) {
        if (which && !which[env]) continue;
        Field field = field_of(game, env);
        Units living = living_units(&field), allies = living & allies_of(game);
        if (allies == living) allies = 0; /* the battle is over */
        for (int64_t unit = 0; unit < game->units; unit++) describe(&field, unit, blocks + unit * ML_BLOCK);
        for (int64_t agent = 0; agent < game->agents; agent++) {
            int64_t row = agent * game->envs + env, is_alive = (int64_t)(allies >> agent & 1);
            float *values = game->values + row * game->features;
            uint8_t *mask = game->masks + row * game->choices;
            game->alive[env * game->agents + agent] = (uint8_t)is_alive;
            if (is_alive) {
                observe_battle(&field, agent, living, blocks, values, mask);
                continue;
            }
            memset(values, 0, bytes(game->features));
            memset(mask, 0, (size_t)game->choices);
            mask[STOP] = 1;
        }
        observe_world(&field, living, blocks);
    }
}

#endif
