/* Adam on one vector with clipping by norm: the step of functions/nn/adam.py. */
#ifndef ML_ADAM_H
#define ML_ADAM_H

#include "lanes.h"

#define ML_BETA_FIRST 0.9
#define ML_BETA_SECOND 0.999

ML_INLINE double power(double base, int64_t exponent) {
    double result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

ML_INLINE float norm_of(const float *vector, int64_t size) {
    vf partial[ML_VECTORS] = {{0}};
    for (int64_t from = 0; from < size; from += ML_BLOCK) {
        float rest[ML_BLOCK] = {0};
        const float *numbers = vector + from;
        if (size - from < ML_BLOCK) {
            copy(rest, numbers, size - from);
            numbers = rest;
        }
        for (int part = 0; part < ML_VECTORS; part++) {
            vf slope = load(numbers + part * ML_LANES);
            partial[part] = fused(slope, slope, partial[part]);
        }
    }
    return __builtin_sqrtf(lane_sum(partial));
}

typedef struct {
    float shrink, spread, epsilon, step;
} Factors;

ML_INLINE void adam_lanes(float *parameters, float *first, float *second, const float *gradient, Factors by) {
    vf slope = load(gradient) * by.shrink;
    vf mean = fused(broadcast((float)(1 - ML_BETA_FIRST)), slope, load(first) * (float)ML_BETA_FIRST);
    vf square = fused(slope * slope, broadcast((float)(1 - ML_BETA_SECOND)), load(second) * (float)ML_BETA_SECOND);
    store(first, mean);
    store(second, square);
    store(parameters, load(parameters) - mean / (square_root(square) / by.spread + by.epsilon) * by.step);
}

/* One step; returns the gradient's norm before clipping. */
static float adam_step(Adam *adam) {
    float norm = norm_of(adam->gradient, adam->size);
    adam->steps++;
    Factors by = {
        norm > adam->max_grad_norm ? (float)(adam->max_grad_norm / (norm + 1e-6)) : 1.0f,
        (float)__builtin_sqrt(1 - power(ML_BETA_SECOND, adam->steps)),
        (float)adam->epsilon,
        (float)(adam->lr / (1 - power(ML_BETA_FIRST, adam->steps))),
    };
    int64_t whole = adam->size / ML_LANES * ML_LANES, left = adam->size - whole;
    for (int64_t from = 0; from < whole; from += ML_LANES)
        adam_lanes(adam->parameters + from, adam->first + from, adam->second + from, adam->gradient + from, by);
    float rest[4][ML_LANES] = {{0}}, *vectors[4] = {adam->parameters, adam->first, adam->second, adam->gradient};
    for (int place = 0; place < 4; place++) copy(rest[place], vectors[place] + whole, left);
    adam_lanes(rest[0], rest[1], rest[2], rest[3], by);
    for (int place = 0; place < 3; place++) copy(vectors[place] + whole, rest[place], left);
    return norm;
}

#endif
