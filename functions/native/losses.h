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

/* Up to LANES rows of the clipped policy loss; their losses without entropy are added, one after another. `logits` and
 * `slopes` have `stride` numbers a row; `metrics` of the rows are the entropy, whether the ratio left the clip range, and
 * the divergence. */
INLINE void policy_rows(const PolicyRows *policy, const int64_t *places, int64_t rows, int64_t actions, float share,
                        const float *logits, float *slopes, int64_t stride, float *planes, float *metrics[3],
                        double *loss) {
    float old[LANES] = {0}, advantage[LANES] = {0};
    vi taken = {0};
    for (int64_t action = 0; action < actions; action++)
        for (int lane = 0; lane < LANES; lane++) {
            float logit = lane < rows ? logits[lane * stride + action] : 0;
            if (policy->legal && lane < rows && !policy->legal[places[lane] * actions + action]) logit = ILLEGAL;
            planes[action * LANES + lane] = logit;
        }
    for (int lane = 0; lane < rows; lane++) {
        old[lane] = policy->log_probability[places[lane]];
        advantage[lane] = policy->advantage[places[lane]];
        taken[lane] = (int32_t)policy->actions[places[lane]];
    }
    float *log_p = planes, *p = planes + actions * LANES;
    vf log_sum = log_total(planes, actions, p), negative_entropy = all(0), chosen = all(0);
    for (int32_t action = 0; action < actions; action++) {
        vf plane = load(log_p + action * LANES) - log_sum, probability = exponential(plane);
        store(log_p + action * LANES, plane);
        store(p + action * LANES, probability);
        negative_entropy = fused(probability, plane, negative_entropy);
        chosen = where(taken == action, plane, chosen);
    }
    vf gain = load(advantage), log_ratio = chosen - load(old), ratio = exponential(log_ratio);
    vi rises = gain >= 0.0f, overshoots = (rises & (ratio > 1 + policy->clip)) | (~rises & (ratio < 1 - policy->clip));
    vf weight = where(overshoots, all(0), -(gain * ratio));
    for (int32_t action = 0; action < actions; action++) {
        vf slope = fused(load(log_p + action * LANES) - negative_entropy, all(policy->entropy_weight), -weight);
        slope *= load(p + action * LANES);
        store(planes + action * LANES, where(taken == action, slope + weight, slope) / share);
    }
    vf most_ratio = all(1 + policy->clip), least_ratio = all(1 - policy->clip);
    vf clipped = least(most_ratio, most(least_ratio, ratio)) * gain;
    vf surrogate = least(ratio * gain, clipped), entropy = -negative_entropy;
    vf overstep = where(magnitude(ratio - 1.0f) > policy->clip, all(1), all(0));
    vf divergence = (ratio - 1.0f) - log_ratio;
    for (int lane = 0; lane < rows; lane++) {
        for (int64_t action = 0; action < actions; action++)
            slopes[lane * stride + action] = planes[action * LANES + lane];
        metrics[0][lane] = ((float *)&entropy)[lane];
        metrics[1][lane] = ((float *)&overstep)[lane];
        metrics[2][lane] = ((float *)&divergence)[lane];
        *loss -= ((float *)&surrogate)[lane];
    }
}

INLINE float cut(float number, float most) { return number > most ? most : number < -most ? -most : number; }
INLINE float huber(float error, float slope) { return slope * (error - 0.5f * slope); }

/* The slope of Huber's clipped value loss at one output; the loss is added. */
INLINE float value_row(const ValueRows *critic, int64_t place, float value, float share, double *loss) {
    float old = critic->old_values[place], target = critic->targets[place], change = value - old;
    float cut_change = cut(change, critic->clip), free = value - target, clipped = (old + cut_change) - target;
    float slope = cut(free, critic->delta), of_free = huber(free, slope);
    float of_clipped = huber(clipped, cut(clipped, critic->delta));
    *loss += of_free >= of_clipped ? of_free : of_clipped; /* NaN in an old value stays */
    if (__builtin_fabsf(free) < __builtin_fabsf(clipped) && cut_change != change) slope = 0;
    return slope / share;
}

#endif
