/* Losses of the PPO family and their gradients at the outputs, in closed form: see functions/nn/losses.py for formulas
 * and sources. BLOCK rows go together. */
#ifndef LOSSES_H
#define LOSSES_H

#include "softmax.h"

#define ILLEGAL -1e9f

/* The policy's rows: `actions`, `log_probability` and `advantage` [all rows], `legal` [all rows, actions] or NULL. */
typedef struct {
    const int64_t *actions;
    const float *log_probability, *advantage;
    const uint8_t *legal;
    float clip, entropy_weight;
} PolicyRows;

/* The critic's rows: `old_values` and `targets` [all rows]. */
typedef struct {
    const float *old_values, *targets;
    float clip, delta;
} ValueRows;

/* Up to LANES rows of the clipped policy loss. `logits` and `slopes` have `stride` numbers a row; the metrics of the
 * rows go to `log_ratio`, `ratio` and `negative_entropy`. */
INLINE void policy_rows(const PolicyRows *policy, const int64_t *places, int64_t rows, int64_t actions, float share,
                        const float *logits, float *slopes, int64_t stride, float *planes, float *metrics[3]) {
    float old[LANES] = {0}, advantage[LANES] = {0}, chosen[LANES] = {0};
    for (int64_t action = 0; action < actions; action++)
        for (int lane = 0; lane < LANES; lane++) {
            float logit = lane < rows ? logits[lane * stride + action] : 0;
            if (policy->legal && lane < rows && !policy->legal[places[lane] * actions + action]) logit = ILLEGAL;
            planes[action * LANES + lane] = logit;
        }
    float *log_p = planes, *p = planes + actions * LANES;
    vf log_sum = log_total(planes, actions, p), negative_entropy = all(0);
    for (int64_t action = 0; action < actions; action++) {
        vf plane = load(log_p + action * LANES) - log_sum, probability = exponential(plane);
        store(log_p + action * LANES, plane);
        store(p + action * LANES, probability);
        negative_entropy = fused(probability, plane, negative_entropy);
    }
    for (int lane = 0; lane < rows; lane++) {
        old[lane] = policy->log_probability[places[lane]];
        advantage[lane] = policy->advantage[places[lane]];
        chosen[lane] = log_p[policy->actions[places[lane]] * LANES + lane];
    }
    vf gain = load(advantage), log_ratio = load(chosen) - load(old), ratio = exponential(log_ratio);
    vi rises = gain >= 0.0f, overshoots = (rises & (ratio > 1 + policy->clip)) | (~rises & (ratio < 1 - policy->clip));
    vf weight = where(overshoots, all(0), -(gain * ratio));
    for (int64_t action = 0; action < actions; action++) {
        vf slope = fused(load(log_p + action * LANES) - negative_entropy, all(policy->entropy_weight), -weight);
        store(planes + action * LANES, slope * load(p + action * LANES));
    }
    float weights[LANES];
    store(weights, weight);
    for (int lane = 0; lane < rows; lane++) {
        planes[policy->actions[places[lane]] * LANES + lane] += weights[lane];
        for (int64_t action = 0; action < actions; action++)
            slopes[lane * stride + action] = planes[action * LANES + lane] / share;
        metrics[0][lane] = ((float *)&log_ratio)[lane];
        metrics[1][lane] = ((float *)&ratio)[lane];
        metrics[2][lane] = ((float *)&negative_entropy)[lane];
    }
}

/* The slope of Huber's clipped value loss at one output; the metrics are the two errors. */
INLINE float value_row(const ValueRows *critic, int64_t place, float value, float share, float *free, float *clipped) {
    float old = critic->old_values[place], target = critic->targets[place], change = value - old;
    float cut_change = change > critic->clip ? critic->clip : change < -critic->clip ? -critic->clip : change;
    *free = value - target;
    *clipped = (old + cut_change) - target;
    float slope = *free > critic->delta ? critic->delta : *free < -critic->delta ? -critic->delta : *free;
    if (__builtin_fabsf(*free) < __builtin_fabsf(*clipped) && cut_change != change) slope = 0;
    return slope / share;
}

#endif
