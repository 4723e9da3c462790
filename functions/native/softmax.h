/* Choices among actions: log-probabilities and draws. LANES rows go together, one lane for each, and action after action
 * is a plane of LANES numbers. */
#ifndef SOFTMAX_H
#define SOFTMAX_H

#include "elementary.h"

/* Subtracts every row's largest logit from its logits; returns the logarithm of the sum of their exponentials, so that
 * the difference is the log-probability. `sums` gets the sums up to each action. */
INLINE vf log_total(float *planes, int64_t actions, float *sums) {
    vf highest = load(planes), sum = all(0);
    for (int64_t action = 1; action < actions; action++) highest = most(load(planes + action * LANES), highest);
    for (int64_t action = 0; action < actions; action++) {
        vf shifted = load(planes + action * LANES) - highest;
        store(planes + action * LANES, shifted);
        sum += exponential(shifted);
        store(sums + action * LANES, sum);
    }
    return logarithm(sum);
}

/* The actions of up to LANES rows of `logits` [rows, actions], by inverse transform sampling with `uniforms` in [0, 1),
 * and their log-probabilities: see `draw` of functions/nn/discrete.py. */
INLINE void draw_rows(const float *logits, const float *uniforms, int64_t rows, int64_t actions, float *planes,
                      int64_t *choices, float *log_p) {
    float *sums = planes + actions * LANES, level[LANES] = {0};
    for (int64_t action = 0; action < actions; action++)
        for (int lane = 0; lane < LANES; lane++)
            planes[action * LANES + lane] = lane < rows ? logits[lane * actions + action] : 0;
    vf log_sum = log_total(planes, actions, sums);
    memcpy(level, uniforms, rows * sizeof(float));
    vf threshold = load(level) * load(sums + (actions - 1) * LANES);
    vi below = {0};
    for (int64_t action = 0; action + 1 < actions; action++) below += load(sums + action * LANES) <= threshold;
    for (int lane = 0; lane < rows; lane++) {
        choices[lane] = -below[lane];
        log_p[lane] = planes[choices[lane] * LANES + lane] - log_sum[lane];
    }
}

/* Choices and log-probabilities [rows] for logits [rows, actions]; `planes` holds 2 * BLOCK numbers for each action. */
EXPORT void choices_draw(const float *logits, const float *uniforms, int64_t rows, int64_t actions, float *planes,
                         int64_t *choices, float *log_p) {
    for (int64_t from = 0; from < rows; from += LANES)
        draw_rows(logits + from * actions, uniforms + from, rows - from < LANES ? rows - from : LANES, actions, planes,
                  choices + from, log_p + from);
}

#endif
