/* The elementary functions of every number of an array. */
#ifndef ELEMENTWISE_H
#define ELEMENTWISE_H

#include "elementary.h"

enum Function { EXPONENTIAL, LOGARITHM, HYPERBOLIC_TANGENT };

INLINE vf elementary(int64_t function, vf x) {
    if (function == EXPONENTIAL) return exponential(x);
    return function == LOGARITHM ? logarithm(x) : hyperbolic_tangent(x);
}

/* `results` may be the `numbers`. */
EXPORT void elementwise(int64_t function, const float *numbers, int64_t count, float *results) {
    int64_t whole = count / LANES * LANES, left = (count - whole) * sizeof(float);
    for (int64_t place = 0; place < whole; place += LANES)
        store(results + place, elementary(function, load(numbers + place)));
    float rest[LANES] = {0};
    memcpy(rest, numbers + whole, left);
    store(rest, elementary(function, load(rest)));
    memcpy(results + whole, rest, left);
}

#endif
