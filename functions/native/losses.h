/* Losses of the PPO family and their gradients at the outputs, in closed form: see functions/nn/losses.py for formulas
 * and sources. ML_LANES rows go together. */
#ifndef ML_LOSSES_H
#define ML_LOSSES_H

#include "softmax.h"

#define ML_ILLEGAL_LOGIT -1e9f

/* Up to ML_LANES rows of the clipped policy loss; their losses without entropy are added, one after another. `logits` and
 * `slopes` have `stride` numbers a row; `metrics` of the rows are the entropy, whether the ratio left the clip range, and
 * the divergence. */
ML_INLINE void policy_rows(const PolicyRows *policy, const int64_t *places, int64_t rows, int64_t actions, float share,
                        const float *logits, float *slopes, int64_t stride, float *planes, float *metrics[3],
                        double *loss) {
    float old[ML_LANES] = {0}, advantage[ML_LANES] = {0};
    vi taken = {0};
    for (int64_t action = 0; action < actions; action++)
        for (int lane = 0; lane < ML_LANES; lane++) {
            float logit = lane < rows ? logits[lane * stride + action] : 0;
            if (policy->legal && lane < rows && !policy->legal[places[lane] * actions + action]) logit = ML_ILLEGAL_LOGIT;
            planes[action * ML_LANES + lane] = logit;
        }
    for (int lane = 0; lane < rows; lane++) {
        old[lane] = policy->log_probability[places[lane]];
        advantage[lane] = policy->advantage[places[lane]];
        taken[lane] = (int32_t)policy->actions[places[lane]];
    }
    float *log_p = planes, *p = planes + actions * ML_LANES;
    vf log_sum = log_total(planes, actions, p), negative_entropy = broadcast(0), chosen = broadcast(0);
    for (int32_t action = 0; action < actions; action++) {
        vf plane = load(log_p + action * ML_LANES) - log_sum, probability = exponential(plane);
        store(log_p + action * ML_LANES, plane);
        store(p + action * ML_LANES, probability);
        negative_entropy = fused(probability, plane, negative_entropy);
        chosen = select_lanes(taken == action, plane, chosen);
    }
    vf gain = load(advantage), log_ratio = chosen - load(old), ratio = exponential(log_ratio);
    vi rises = gain >= 0.0f, overshoots = (rises & (ratio > 1 + policy->clip)) | (~rises & (ratio < 1 - policy->clip));
    vf weight = select_lanes(overshoots, broadcast(0), -(gain * ratio));
    for (int32_t action = 0; action < actions; action++) {
        vf slope = fused(load(log_p + action * ML_LANES) - negative_entropy, broadcast(policy->entropy_weight), -weight);
        slope *= load(p + action * ML_LANES);
        store(planes + action * ML_LANES, select_lanes(taken == action, slope + weight, slope) / share);
    }
    vf most_ratio = broadcast(1 + policy->clip), least_ratio = broadcast(1 - policy->clip);
    vf clipped = lanes_min(most_ratio, lanes_max(least_ratio, ratio)) * gain;
    vf surrogate = lanes_min(ratio * gain, clipped), entropy = -negative_entropy;
    vf overstep = select_lanes(magnitude(ratio - 1.0f) > policy->clip, broadcast(1), broadcast(0));
    vf divergence = (ratio - 1.0f) - log_ratio;
    for (int lane = 0; lane < rows; lane++) {
        for (int64_t action = 0; action < actions; action++)
            slopes[lane * stride + action] = planes[action * ML_LANES + lane];
        metrics[0][lane] = ((float *)&entropy)[lane];
        metrics[1][lane] = ((float *)&overstep)[lane];
        metrics[2][lane] = ((float *)&divergence)[lane];
        *loss -= ((float *)&surrogate)[lane];
    }
}

ML_INLINE float clamp(float number, float most) { return number > most ? most : number < -most ? -most : number; }
ML_INLINE float huber(float error, float slope) { return slope * (error - 0.5f * slope); }

/* The slope of Huber's clipped value loss at one output; the loss is added. */
ML_INLINE float value_row(const ValueRows *critic, int64_t place, float value, float share, double *loss) {
    float old = critic->old_values[place], target = critic->targets[place], change = value - old;
    float clamped_change = clamp(change, critic->clip), free = value - target, clipped = (old + clamped_change) - target;
    float slope = clamp(free, critic->delta), of_free = huber(free, slope);
    float of_clipped = huber(clipped, clamp(clipped, critic->delta));
    *loss += of_free >= of_clipped ? of_free : of_clipped; /* NaN in an old value stays */
    if (__builtin_fabsf(free) < __builtin_fabsf(clipped) && clamped_change != change) slope = 0;
    return slope / share;
}

#endif
