/* The part that all games share: the first fields of their structures, and random numbers by address.
 *
 * A game holds E environments. `GAME_step` advances all of them and returns how many episodes ended, or -1 for an action
 * out of range, before it writes anything. `GAME_reset` begins new episodes and `GAME_observe` writes observations, in the
 * environments with a mark in `which` [E], or everywhere if that is NULL. Python declares the fields again in fields.py.
 */
#ifndef ML_GAME_H
#define ML_GAME_H

#include "../lanes.h"

/* Applies X(S, type, field) to the first fields of each structure S. All fields have eight bytes.
 *
 * Sizes: environments, agents, numbers of an observation, actions, numbers of the global state.
 * State: of each environment a key, the number of its episode and the steps taken in it [E].
 * Inputs: `actions` [E, agents]. Observations: `values` [agents, E, features], `masks` [agents, E, choices], `state`
 * [E, state_size], `alive` [E, agents]. Results of a step: `rewards`, `terminated` [E, agents], `truncated`, `ended` [E],
 * `metrics` [metrics, E]. Arrays that a game does not have are NULL. */
#define ML_GAME(X, S)                                                                                                  \
    X(S, int64_t, envs) X(S, int64_t, agents) X(S, int64_t, features) X(S, int64_t, choices) X(S, int64_t, state_size) \
    X(S, uint64_t *, keys) X(S, int64_t *, episode) X(S, int64_t *, clock) X(S, const int64_t *, actions)              \
    X(S, float *, values) X(S, uint8_t *, masks) X(S, float *, state) X(S, uint8_t *, alive) X(S, double *, rewards)   \
    X(S, uint8_t *, terminated) X(S, uint8_t *, truncated) X(S, uint8_t *, ended) X(S, double *, metrics)
#define ML_MEMBER(S, type, field) type field;
#define ML_ROW(S, type, field) ML_FIELD(S, field),

/* Four random words at an address: Philox4x32-10 of Salmon et al. (2011), "Parallel random numbers: as easy as 1, 2, 3". */
static void random_block(uint64_t key, const uint32_t counter[4], uint32_t words[4]) {
    uint32_t first = counter[0], second = counter[1], third = counter[2], fourth = counter[3];
    uint32_t low_key = (uint32_t)key, high_key = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t product = (uint64_t)first * 0xD2511F53u, other = (uint64_t)third * 0xCD9E8D57u;
        first = (uint32_t)(other >> 32) ^ second ^ low_key;
        second = (uint32_t)other;
        third = (uint32_t)(product >> 32) ^ fourth ^ high_key;
        fourth = (uint32_t)product;
        low_key += 0x9E3779B9u;
        high_key += 0xBB67AE85u;
    }
    words[0] = first, words[1] = second, words[2] = third, words[3] = fourth;
}

static uint32_t random_word(uint64_t key, int64_t episode, int64_t clock, int64_t purpose, int64_t index) {
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)purpose, (uint32_t)clock, (uint32_t)episode}, words[4];
    random_block(key, counter, words);
    return words[0];
}

/* The random word of an environment for a purpose, one of the game's own, and the place of a draw for that purpose. */
#define ML_WORD(game, env, purpose, index) \
    random_word((game)->keys[env], (game)->episode[env], (game)->clock[env], purpose, index)

/* A whole number from 0 to `count` - 1. */
ML_INLINE int64_t draw_below(uint32_t word, int64_t count) { return (int64_t)((uint64_t)word * (uint64_t)count >> 32); }

/* A number from 0 to 1, without 1. */
ML_INLINE float draw_unit(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

#define ML_BEGIN_EPISODE(game, env) ((game)->episode[env]++, (game)->clock[env] = 0)

ML_INLINE int actions_exist(const int64_t *actions, int64_t count, int64_t choices) {
    int wrong = 0;
    for (int64_t place = 0; place < count; place++) wrong |= (uint64_t)actions[place] >= (uint64_t)choices;
    return !wrong;
}

#endif
