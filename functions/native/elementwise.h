/* The elementary functions of every number of an array. */
#ifndef ELEMENTWISE_H
#define ELEMENTWISE_H

#include "elementary.h"

enum Function { EXPONENTIAL, LOGARITHM, HYPERBOLIC_TANGENT };

/* In place. */
EXPORT void elementwise(int64_t function, float *numbers, int64_t count) {
    if (function == HYPERBOLIC_TANGENT) {
        hyperbolic_tangents(numbers, count);
        return;
    }
    for (int64_t some; count > 0; count -= some, numbers += some) {
        some = count < LANES ? count : LANES;
        float few[LANES] = {0};
        memcpy(few, numbers, some * sizeof(float));
        store(few, function == EXPONENTIAL ? exponential(load(few)) : logarithm(load(few)));
        memcpy(numbers, few, some * sizeof(float));
    }
}

#endif
