/* The kitchen of overcooked-ai 1.1.0 (Carroll et al. 2019), in whole numbers.
 *
 * A cell is row * columns + column. A pose is 4 * cell + facing: north, south, east or west. No floor is at the border.
 * Interactions come before movements, cook 0 before cook 1, and pots cook last. Tables of a layout are made by
 * functions/environments/games/kitchen_tables.py.
 */
#ifndef ML_KITCHEN_H
#define ML_KITCHEN_H

#include "game.h"

#define KITCHEN_COOKS 2

/* Sizes: `area` counts cells, `counters` the columns of tables about counters. `paints`: observations are images.
 *
 * Tables by cell: `terrain` of KitchenTile. `pot_numbers` are -1 elsewhere, `first_tiles` are the first things.
 * `spots` [2] are column and row. By soup [16]: `pays`, `cook_steps`. By cook: `first_cooks` [2], cell and facing.
 * By pose: `to_dispensers` [3] are steps to the nearest onions, tomatoes and dishes. `next_pots` [2] are the nearest
 * pots or -1. `next_counters` [counters] are cells from the nearest on, `to_counters` [counters] the steps to them. A
 * row of counters ends with -1. `pot_cells` [pots], `shaping` [1]. `blank` has the constant numbers of features by pose
 * [KITCHEN_OWN], or of the image.
 *
 * State [E, ...]: `cells`, `facings` and `hands` [cooks]. `tiles` [cells] are the things on cells, `dropped` [cells]
 * when a cook put them there. `laid` counts things on counters. `cooked` [pots] counts steps, -1 before the start.
 * `sales` is the pay for soups. */
#define ML_KITCHEN(X, S)                                                                                               \
    ML_GAME(X, S)                                                                                                      \
    X(S, int64_t, columns) X(S, int64_t, area) X(S, int64_t, counters) X(S, int64_t, pots) X(S, int64_t, horizon)      \
    X(S, int64_t, paints)                                                                                              \
    X(S, const uint8_t *, terrain) X(S, const int16_t *, pot_numbers) X(S, const int16_t *, pot_cells)                 \
    X(S, const int64_t *, pays) X(S, const int64_t *, cook_steps) X(S, const double *, shaping)                        \
    X(S, const int16_t *, first_cooks) X(S, const uint8_t *, first_tiles) X(S, const float *, blank)                   \
    X(S, const float *, spots) X(S, const int16_t *, to_dispensers) X(S, const int16_t *, next_pots)                   \
    X(S, const int16_t *, next_counters) X(S, const int16_t *, to_counters)                                            \
    X(S, int16_t *, cells) X(S, uint8_t *, facings) X(S, uint8_t *, hands) X(S, uint8_t *, tiles)                      \
    X(S, int32_t *, dropped) X(S, int64_t *, laid) X(S, int16_t *, cooked) X(S, int64_t *, sales)
typedef struct { ML_KITCHEN(ML_MEMBER, Kitchen) } Kitchen;

enum KitchenTile {
    KITCHEN_FLOOR, KITCHEN_COUNTER, KITCHEN_POT, KITCHEN_ONIONS, KITCHEN_TOMATOES, KITCHEN_DISHES, KITCHEN_SERVING
};
/* A soup is KITCHEN_SOUP plus its onions plus 4 for each tomato. */
enum KitchenThing { KITCHEN_NOTHING, KITCHEN_ONION, KITCHEN_TOMATO, KITCHEN_DISH, KITCHEN_SOUP = 16 };
enum KitchenAction { KITCHEN_STAY = 4, KITCHEN_INTERACT, KITCHEN_ACTIONS };
/* The pay of a cook for steps on the way to a soup. */
enum KitchenShaping { KITCHEN_PAY_INGREDIENT = 3, KITCHEN_PAY_DISH = 3, KITCHEN_PAY_SOUP = 5 };
/* Where the numbers of an observation begin. */
enum KitchenFeature {
    KITCHEN_THINGS = 8, KITCHEN_SOUP_COUNTS = 16, KITCHEN_COUNTER_WAY = 20, KITCHEN_POTS = 22, KITCHEN_OWN = 46
};
enum KitchenLayer {
    KITCHEN_LAYER_FACING = 2, KITCHEN_LAYER_POTTED = 16, KITCHEN_LAYER_SOUP = 18, KITCHEN_LAYER_LEFT = 20,
    KITCHEN_LAYER_READY, KITCHEN_LAYER_DISHES, KITCHEN_LAYER_ONIONS, KITCHEN_LAYER_TOMATOES, KITCHEN_LAYER_URGENT,
    KITCHEN_LAYERS
};
#define KITCHEN_POT_NUMBERS 10
/* In so many last steps of an episode the image says that time runs out. */
#define KITCHEN_URGENT_STEPS 39

/* One environment. */
typedef struct {
    const Kitchen *game;
    int64_t clock, *laid;
    int16_t *cells, *cooked;
    int32_t *dropped;
    uint8_t *facings, *hands, *tiles;
} KitchenRoom;

ML_INLINE KitchenRoom kitchen_room(const Kitchen *game, int64_t env) {
    int64_t cook = env * KITCHEN_COOKS, cell = env * game->area;
    return (KitchenRoom){game, game->clock[env], game->laid + env, game->cells + cook, game->cooked + env * game->pots,
                  game->dropped + cell, game->facings + cook, game->hands + cook, game->tiles + cell};
}

ML_INLINE int64_t kitchen_onions_of(uint8_t soup) { return soup & 3; }
ML_INLINE int64_t kitchen_tomatoes_of(uint8_t soup) { return soup >> 2 & 3; }
ML_INLINE int64_t kitchen_ingredients_of(uint8_t soup) { return kitchen_onions_of(soup) + kitchen_tomatoes_of(soup); }
/* Onions, tomatoes, dishes and soups from 0. */
ML_INLINE int64_t kitchen_kind_of(uint8_t thing) { return thing >= KITCHEN_SOUP ? 3 : thing - 1; }

ML_INLINE int64_t kitchen_cell_beside(const Kitchen *game, int64_t cell, int64_t direction) {
    const int64_t steps[KITCHEN_ACTIONS] = {-game->columns, game->columns, 1, -1, 0, 0};
    return cell + steps[direction];
}

ML_INLINE uint8_t kitchen_pot_content(const KitchenRoom *room, int64_t pot) {
    return room->tiles[room->game->pot_cells[pot]];
}

ML_INLINE int64_t kitchen_steps_left(const KitchenRoom *room, int64_t pot) {
    return room->game->cook_steps[kitchen_pot_content(room, pot) & 15] - room->cooked[pot];
}

ML_INLINE int64_t kitchen_pot_is_ready(const KitchenRoom *room, int64_t pot) {
    return room->cooked[pot] >= 0 && kitchen_steps_left(room, pot) <= 0;
}

/* Pots that cook, are ready, or lack ingredients. A full pot that waits for its start does not count. */
static int64_t kitchen_pots_for_dishes(const KitchenRoom *room) {
    int64_t pots = 0;
    for (int64_t pot = 0; pot < room->game->pots; pot++) {
        int64_t ingredients = kitchen_ingredients_of(kitchen_pot_content(room, pot));
        pots += ingredients && (room->cooked[pot] >= 0 || ingredients < 3);
    }
    return pots;
}

static int64_t kitchen_dish_is_needed(const KitchenRoom *room, int64_t pots) {
    for (int64_t cell = 0; cell < room->game->area; cell++)
        if (room->tiles[cell] == KITCHEN_DISH) return 0;
    return (room->hands[0] == KITCHEN_DISH) + (room->hands[1] == KITCHEN_DISH) < pots;
}

static int64_t kitchen_use_pot(const KitchenRoom *room, uint8_t *hand, int64_t cell) {
    int64_t pot = room->game->pot_numbers[cell];
    uint8_t *soup = room->tiles + cell;
    if (!*hand && *soup && room->cooked[pot] < 0) room->cooked[pot] = 0;
    if (*hand == KITCHEN_DISH && kitchen_pot_is_ready(room, pot)) {
        *hand = *soup;
        *soup = KITCHEN_NOTHING;
        room->cooked[pot] = -1;
        return KITCHEN_PAY_SOUP;
    }
    int holds_ingredient = *hand == KITCHEN_ONION || *hand == KITCHEN_TOMATO;
    if (!holds_ingredient || room->cooked[pot] >= 0 || kitchen_ingredients_of(*soup) == 3) return 0;
    *soup = (uint8_t)((*soup | KITCHEN_SOUP) + (*hand == KITCHEN_ONION ? 1 : 4));
    *hand = KITCHEN_NOTHING;
    return KITCHEN_PAY_INGREDIENT;
}

static void kitchen_use_counter(const KitchenRoom *room, int64_t cook, int64_t cell) {
    uint8_t *hand = room->hands + cook, *counter = room->tiles + cell;
    if (!*hand == !*counter) return;
    *room->laid += *hand ? 1 : -1;
    if (*hand) room->dropped[cell] = (int32_t)(KITCHEN_COOKS * room->clock + cook);
    uint8_t thing = *hand;
    *hand = *counter;
    *counter = thing;
}

/* Returns the cook's own pay, and adds the pay for a soup to `sold`. `pots` wait for dishes before the step. */
static int64_t kitchen_use_tile(const KitchenRoom *room, int64_t cook, int64_t pots, int64_t *sold) {
    int64_t cell = kitchen_cell_beside(room->game, room->cells[cook], room->facings[cook]), pay = 0;
    uint8_t *hand = room->hands + cook, tile = room->game->terrain[cell];
    if (tile == KITCHEN_COUNTER) kitchen_use_counter(room, cook, cell);
    if (tile == KITCHEN_POT) pay = kitchen_use_pot(room, hand, cell);
    if (tile == KITCHEN_DISHES && !*hand && kitchen_dish_is_needed(room, pots)) pay = KITCHEN_PAY_DISH;
    int is_dispenser = tile == KITCHEN_ONIONS || tile == KITCHEN_TOMATOES || tile == KITCHEN_DISHES;
    if (is_dispenser && !*hand) *hand = (uint8_t)(KITCHEN_ONION + tile - KITCHEN_ONIONS);
    if (tile == KITCHEN_SERVING && *hand >= KITCHEN_SOUP) {
        *sold += room->game->pays[*hand & 15];
        *hand = KITCHEN_NOTHING;
    }
    return pay;
}

/* Both turn. If they would meet or change places, both stay. */
static void kitchen_walk(const KitchenRoom *room, const int64_t *actions) {
    int64_t to[KITCHEN_COOKS];
    for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++) {
        to[cook] = kitchen_cell_beside(room->game, room->cells[cook], actions[cook]);
        if (room->game->terrain[to[cook]] != KITCHEN_FLOOR) to[cook] = room->cells[cook];
        if (actions[cook] < KITCHEN_STAY) room->facings[cook] = (uint8_t)actions[cook];
    }
    if (to[0] == to[1] || (to[0] == room->cells[1] && to[1] == room->cells[0])) return;
    for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++) room->cells[cook] = (int16_t)to[cook];
}

ML_EXPORT int64_t kitchen_step(const Kitchen *game) {
    if (!actions_exist(game->actions, game->envs * KITCHEN_COOKS, KITCHEN_ACTIONS)) return -1;
    int64_t ended = 0;
    for (int64_t env = 0; env < game->envs; env++) {
        KitchenRoom room = kitchen_room(game, env);
        const int64_t *actions = game->actions + env * KITCHEN_COOKS;
        int64_t pots = kitchen_pots_for_dishes(&room), sold = 0, pays[KITCHEN_COOKS] = {0};
        for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++)
            if (actions[cook] == KITCHEN_INTERACT) pays[cook] = kitchen_use_tile(&room, cook, pots, &sold);
        kitchen_walk(&room, actions);
        for (int64_t pot = 0; pot < game->pots; pot++)
            if (room.cooked[pot] >= 0 && kitchen_steps_left(&room, pot) > 0) room.cooked[pot]++;
        for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++) {
            game->rewards[env * KITCHEN_COOKS + cook] = (double)sold + *game->shaping * (double)pays[cook];
            game->terminated[env * KITCHEN_COOKS + cook] = 0;
        }
        game->sales[env] += sold;
        game->metrics[env] = (double)game->sales[env];
        game->ended[env] = game->truncated[env] = ++game->clock[env] == game->horizon;
        ended += game->ended[env];
    }
    return ended;
}

ML_EXPORT void kitchen_reset(const Kitchen *game, const uint8_t *which) {
    for (int64_t env = 0; env < game->envs; env++) {
        if (which && !which[env]) continue;
        KitchenRoom room = kitchen_room(game, env);
        ML_BEGIN_EPISODE(game, env);
        for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++) {
            room.cells[cook] = game->first_cooks[2 * cook];
            room.facings[cook] = (uint8_t)game->first_cooks[2 * cook + 1];
            room.hands[cook] = KITCHEN_NOTHING;
        }
        memcpy(room.tiles, game->first_tiles, (size_t)game->area);
        memset(room.dropped, 0, (size_t)game->area * sizeof *room.dropped);
        for (int64_t pot = 0; pot < game->pots; pot++) room.cooked[pot] = -1;
        game->laid[env] = game->sales[env] = 0;
    }
}

ML_INLINE void kitchen_write_way(const Kitchen *game, int64_t from, int64_t to, float *numbers) {
    for (int64_t axis = 0; axis < 2; axis++) numbers[axis] = game->spots[2 * to + axis] - game->spots[2 * from + axis];
}

/* The nearest things of each kind. Of several at the same distance the dispenser counts, or the thing that was put down
 * first. */
static void kitchen_write_things(const KitchenRoom *room, int64_t cook, int64_t pose, float *row) {
    const Kitchen *game = room->game;
    const int16_t *cells = game->next_counters + pose * game->counters;
    const int16_t *steps = game->to_counters + pose * game->counters, *dispensers = game->to_dispensers + 3 * pose;
    int64_t least[] = {dispensers[0], dispensers[1], dispensers[2], INT16_MAX}, nearest[] = {-1, -1, -1, -1};
    int64_t from = room->cells[cook], empty = -1, things = 0;
    for (int64_t place = 0, cell; (cell = cells[place]) >= 0; place++) {
        if (!room->tiles[cell]) {
            if (empty < 0) empty = cell;
            if (things == *room->laid) break;
            continue;
        }
        int64_t kind = kitchen_kind_of(room->tiles[cell]), other = nearest[kind];
        things++;
        int is_later = other < 0 || room->dropped[other] < room->dropped[cell];
        if (steps[place] > least[kind] || (steps[place] == least[kind] && is_later)) continue;
        least[kind] = steps[place];
        nearest[kind] = cell;
    }
    if (empty >= 0) kitchen_write_way(game, from, empty, row + KITCHEN_COUNTER_WAY);
    uint8_t hand = room->hands[cook], soup = nearest[3] >= 0 ? room->tiles[nearest[3]] : KITCHEN_NOTHING;
    for (int64_t kind = 0; kind < 4; kind++)
        if (nearest[kind] >= 0) kitchen_write_way(game, from, nearest[kind], row + KITCHEN_THINGS + 2 * kind);
    if (hand) row[KITCHEN_THINGS + 2 * kitchen_kind_of(hand)] = row[KITCHEN_THINGS + 2 * kitchen_kind_of(hand) + 1] = 0;
    if (hand >= KITCHEN_SOUP) soup = hand;
    row[KITCHEN_SOUP_COUNTS] = (float)kitchen_onions_of(soup);
    row[KITCHEN_SOUP_COUNTS + 1] = (float)kitchen_tomatoes_of(soup);
}

/* Whether the pot is empty, full, cooking, ready, then its onions and tomatoes, and the steps that are left. */
static void kitchen_write_pot(const KitchenRoom *room, int64_t pot, float *numbers) {
    uint8_t soup = kitchen_pot_content(room, pot);
    int64_t has_started = room->cooked[pot] >= 0, is_ready = kitchen_pot_is_ready(room, pot);
    numbers[0] = (float)!soup;
    numbers[1] = (float)(has_started || kitchen_ingredients_of(soup) == 3);
    numbers[2] = (float)(has_started && !is_ready);
    numbers[3] = (float)is_ready;
    numbers[4] = (float)kitchen_onions_of(soup);
    numbers[5] = (float)kitchen_tomatoes_of(soup);
    numbers[6] = (float)(has_started ? kitchen_steps_left(room, pot) : 0);
}

static void kitchen_describe(const KitchenRoom *room, int64_t cook, float *row) {
    static const int64_t held[] = {4, 7, 6, 5};
    int64_t pose = 4 * room->cells[cook] + room->facings[cook];
    memcpy(row, room->game->blank + pose * KITCHEN_OWN, KITCHEN_OWN * sizeof *row);
    if (room->hands[cook]) row[held[kitchen_kind_of(room->hands[cook])]] = 1;
    kitchen_write_things(room, cook, pose, row);
    for (int64_t place = 0; place < 2; place++) {
        int64_t pot = room->game->next_pots[2 * pose + place];
        if (pot >= 0) kitchen_write_pot(room, pot, row + KITCHEN_POTS + KITCHEN_POT_NUMBERS * place + 1);
    }
}

static void kitchen_write_features(const KitchenRoom *room, float *first, float *second) {
    float *rows[] = {first, second};
    for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++) kitchen_describe(room, cook, rows[cook]);
    for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++) {
        int64_t other = 1 - cook, own_cell = room->cells[cook];
        float *end = rows[cook] + 2 * KITCHEN_OWN;
        memcpy(rows[cook] + KITCHEN_OWN, rows[other], KITCHEN_OWN * sizeof *end);
        kitchen_write_way(room->game, own_cell, room->cells[other], end);
        memcpy(end + 2, room->game->spots + 2 * own_cell, 2 * sizeof *end);
    }
}

/* A thing on a counter or in a hand. */
static void kitchen_paint_thing(uint8_t thing, float *layers) {
    static const int64_t layer[] = {
        KITCHEN_LAYER_ONIONS, KITCHEN_LAYER_TOMATOES, KITCHEN_LAYER_DISHES, KITCHEN_LAYER_READY};
    if (!thing) return;
    layers[layer[kitchen_kind_of(thing)]] = 1;
    if (thing < KITCHEN_SOUP) return;
    layers[KITCHEN_LAYER_SOUP] = (float)kitchen_onions_of(thing);
    layers[KITCHEN_LAYER_SOUP + 1] = (float)kitchen_tomatoes_of(thing);
}

static void kitchen_paint_pot(const KitchenRoom *room, int64_t pot, float *layers) {
    uint8_t soup = kitchen_pot_content(room, pot);
    int64_t has_started = room->cooked[pot] >= 0, place = has_started ? KITCHEN_LAYER_SOUP : KITCHEN_LAYER_POTTED;
    layers[place] = (float)kitchen_onions_of(soup);
    layers[place + 1] = (float)kitchen_tomatoes_of(soup);
    if (has_started) layers[KITCHEN_LAYER_LEFT] = (float)kitchen_steps_left(room, pot);
    layers[KITCHEN_LAYER_READY] = (float)kitchen_pot_is_ready(room, pot);
}

static void kitchen_paint_cooks(const KitchenRoom *room, int64_t viewer, float *image) {
    for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++) {
        float *layers = image + KITCHEN_LAYERS * room->cells[cook];
        int64_t place = cook == viewer ? 0 : 1;
        layers[place] = layers[KITCHEN_LAYER_FACING + 4 * place + room->facings[cook]] = 1;
    }
}

static void kitchen_paint(const KitchenRoom *room, float *first, float *second) {
    const Kitchen *game = room->game;
    size_t size = (size_t)(game->area * KITCHEN_LAYERS) * sizeof *first;
    memcpy(first, game->blank, size);
    for (int64_t cell = 0; cell < game->area; cell++) {
        float *layers = first + KITCHEN_LAYERS * cell;
        if (game->pot_numbers[cell] < 0) kitchen_paint_thing(room->tiles[cell], layers);
        layers[KITCHEN_LAYER_URGENT] = (float)(game->horizon - room->clock <= KITCHEN_URGENT_STEPS);
    }
    for (int64_t pot = 0; pot < game->pots; pot++)
        kitchen_paint_pot(room, pot, first + KITCHEN_LAYERS * game->pot_cells[pot]);
    for (int64_t cook = 0; cook < KITCHEN_COOKS; cook++)
        kitchen_paint_thing(room->hands[cook], first + KITCHEN_LAYERS * room->cells[cook]);
    memcpy(second, first, size);
    kitchen_paint_cooks(room, 0, first);
    kitchen_paint_cooks(room, 1, second);
}

ML_EXPORT void kitchen_observe(const Kitchen *game, const uint8_t *which) {
    for (int64_t env = 0; env < game->envs; env++) {
        if (which && !which[env]) continue;
        KitchenRoom room = kitchen_room(game, env);
        float *first = game->values + env * game->features, *second = first + game->envs * game->features;
        if (game->paints) kitchen_paint(&room, first, second);
        else kitchen_write_features(&room, first, second);
    }
}

#endif
