/* The random words of one address, one after another: four of each block. */
#ifndef ML_DRAWS_H
#define ML_DRAWS_H

#include "game.h"

typedef struct {
    uint64_t key;
    uint32_t counter[4], words[4];
    int64_t count;
} Draws;

ML_INLINE Draws draws_of(uint64_t key, int64_t episode, int64_t clock, int64_t purpose) {
    return (Draws){key, {0, (uint32_t)purpose, (uint32_t)clock, (uint32_t)episode}, {0}, 0};
}

/* A whole number from 0 to `count` - 1. */
ML_INLINE int64_t next_below(Draws *draws, int64_t count) {
    int64_t place = draws->count++ % 4;
    if (!place) {
        random_block(draws->key, draws->counter, draws->words);
        draws->counter[0]++;
    }
    return draw_below(draws->words[place], count);
}

/* A whole number from `low` to `high`. */
ML_INLINE int64_t next_between(Draws *draws, int64_t low, int64_t high) {
    return low + next_below(draws, high - low + 1);
}

#endif
