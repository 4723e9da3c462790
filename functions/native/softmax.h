/* Choices among actions: log-probabilities and draws. ML_LANES rows go together, one lane for each, and action after action
 * is a plane of ML_LANES numbers. */
#ifndef ML_SOFTMAX_H
#define ML_SOFTMAX_H

#include "elementary.h"

/* Subtracts every row's largest logit from its logits; returns the logarithm of the sum of their exponentials, so that
 * the difference is the log-probability. `sums` gets the sums up to each action. */
ML_INLINE vf log_total(float *planes, int64_t actions, float *sums) {
    vf highest = load(planes), sum = broadcast(0);
    for (int64_t action = 1; action < actions; action++) highest = lanes_max(load(planes + action * ML_LANES), highest);
    for (int64_t action = 0; action < actions; action++) {
        vf shifted = load(planes + action * ML_LANES) - highest;
        store(planes + action * ML_LANES, shifted);
        sum += exponential(shifted);
        store(sums + action * ML_LANES, sum);
    }
    return logarithm(sum);
}

/* The actions of up to ML_LANES rows of `logits` [rows, actions], by inverse transform sampling with `uniforms` in [0, 1),
 * and their log-probabilities: see `draw` of functions/nn/discrete.py. */
ML_INLINE void draw_rows(const float *logits, const float *uniforms, int64_t rows, int64_t actions, float *planes,
                      int64_t *choices, float *log_p) {
    float *sums = planes + actions * ML_LANES, level[ML_LANES] = {0};
    for (int64_t action = 0; action < actions; action++)
        for (int lane = 0; lane < ML_LANES; lane++)
            planes[action * ML_LANES + lane] = lane < rows ? logits[lane * actions + action] : 0;
    vf log_sum = log_total(planes, actions, sums);
    copy(level, uniforms, rows);
    vf threshold = load(level) * load(sums + (actions - 1) * ML_LANES);
    vi below = {0};
    for (int64_t action = 0; action + 1 < actions; action++) below += load(sums + action * ML_LANES) <= threshold;
    for (int lane = 0; lane < rows; lane++) {
        choices[lane] = -below[lane];
        log_p[lane] = planes[choices[lane] * ML_LANES + lane] - log_sum[lane];
    }
}

#endif
