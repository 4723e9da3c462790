/* Adam on one vector with clipping by norm: the step of functions/nn/adam.py. */
#ifndef ADAM_H
#define ADAM_H

#include "lanes.h"

#define BETA_FIRST 0.9
#define BETA_SECOND 0.999

typedef struct {
    float *parameters, *first, *second, *gradient;
    int64_t size, steps;
    double lr, epsilon, max_grad_norm;
} Adam;

INLINE double power(double base, int64_t exponent) {
    double result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

INLINE float norm_of(const float *vector, int64_t size) {
    vf partial[VECTORS] = {{0}};
    for (int64_t from = 0; from < size; from += BLOCK) {
        float rest[BLOCK] = {0};
        const float *numbers = vector + from;
        if (size - from < BLOCK) numbers = memcpy(rest, numbers, (size - from) * sizeof(float));
        for (int part = 0; part < VECTORS; part++) {
            vf each = load(numbers + part * LANES);
            partial[part] = fused(each, each, partial[part]);
        }
    }
    return __builtin_sqrtf(total(partial));
}

typedef struct {
    float shrink, spread, epsilon, step;
} Factors;

INLINE void adam_lanes(float *parameters, float *first, float *second, const float *gradient, Factors by) {
    vf slope = load(gradient) * by.shrink;
    vf mean = fused(all((float)(1 - BETA_FIRST)), slope, load(first) * (float)BETA_FIRST);
    vf square = fused(slope * slope, all((float)(1 - BETA_SECOND)), load(second) * (float)BETA_SECOND);
    store(first, mean);
    store(second, square);
    store(parameters, load(parameters) - mean / (root(square) / by.spread + by.epsilon) * by.step);
}

/* One step; returns the gradient's norm before clipping. */
static float adam_step(Adam *adam) {
    float norm = norm_of(adam->gradient, adam->size);
    adam->steps++;
    Factors by = {
        norm > adam->max_grad_norm ? (float)(adam->max_grad_norm / (norm + 1e-6)) : 1.0f,
        (float)__builtin_sqrt(1 - power(BETA_SECOND, adam->steps)),
        (float)adam->epsilon,
        (float)(adam->lr / (1 - power(BETA_FIRST, adam->steps))),
    };
    int64_t whole = adam->size / LANES * LANES, left = adam->size - whole;
    for (int64_t from = 0; from < whole; from += LANES)
        adam_lanes(adam->parameters + from, adam->first + from, adam->second + from, adam->gradient + from, by);
    float rest[4][LANES] = {{0}}, *vectors[4] = {adam->parameters, adam->first, adam->second, adam->gradient};
    for (int place = 0; place < 4; place++) memcpy(rest[place], vectors[place] + whole, left * sizeof(float));
    adam_lanes(rest[0], rest[1], rest[2], rest[3], by);
    for (int place = 0; place < 3; place++) memcpy(vectors[place] + whole, rest[place], left * sizeof(float));
    return norm;
}

#endif
