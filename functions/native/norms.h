/* Layer normalisation, see functions/nn/layers.py. */
#ifndef ML_NORMS_H
#define ML_NORMS_H

#include "lanes.h"

#define ML_NORM_EPSILON 1e-5f

typedef struct {
    float *gain, *shift, *gain_slope, *shift_slope; /* [padded width] */
    float *centred, *inverse;                       /* [rows, padded width], and the inverse deviations [rows] */
} Norm;

/* The mean of a row's numbers, or of their products with others; padding is 0 in one of the factors. */
ML_INLINE float row_mean(const float *row, const float *others, int64_t width) {
    vf partial[ML_VECTORS] = {{0}};
    for (int64_t place = 0; place < padded_width(width); place += ML_BLOCK)
        for (int part = 0; part < ML_VECTORS; part++) {
            vf numbers = load(row + place + part * ML_LANES);
            vf factors = others ? load(others + place + part * ML_LANES) : broadcast(1.0f);
            partial[part] = fused(numbers, factors, partial[part]);
        }
    return lane_sum(partial) / (float)width;
}

/* The normalised `units` in `result`, which may be the same. */
static void normalise(const Norm *norm, const float *units, float *result, int64_t width, int64_t rows) {
    int64_t stride = padded_width(width);
    for (int64_t row = 0; row < rows; row++, units += stride, result += stride) {
        float *centred = norm->centred + row * stride;
        vf mean = broadcast(row_mean(units, 0, width));
        for (int64_t place = 0; place < stride; place += ML_LANES) store(centred + place, load(units + place) - mean);
        for (int64_t place = width; place < stride; place++) centred[place] = 0;
        float inverse = 1 / __builtin_sqrtf(row_mean(centred, centred, width) + ML_NORM_EPSILON);
        norm->inverse[row] = inverse;
        for (int64_t place = 0; place < stride; place += ML_LANES) {
            vf scaled = load(centred + place) * inverse;
            store(centred + place, scaled);
            store(result + place, fused(scaled, load(norm->gain + place), load(norm->shift + place)));
        }
    }
}

/* Turns d loss / d outputs of a norm into d loss / d its inputs, and sums the slopes of its parameters, to those of
 * earlier rows if it `adds`. */
static void normalise_back(const Norm *norm, float *slopes, int64_t width, int64_t rows, int adds) {
    int64_t stride = padded_width(width);
    float *gains = norm->gain_slope, *shifts = norm->shift_slope;
    if (!adds) {
        memset(gains, 0, bytes(stride));
        memset(shifts, 0, bytes(stride));
    }
    for (int64_t row = 0; row < rows; row++, slopes += stride) {
        const float *centred = norm->centred + row * stride;
        for (int64_t place = 0; place < stride; place += ML_LANES) {
            vf slope = load(slopes + place);
            store(gains + place, fused(slope, load(centred + place), load(gains + place)));
            store(shifts + place, slope + load(shifts + place));
            store(slopes + place, slope * load(norm->gain + place));
        }
        vf along = broadcast(row_mean(slopes, centred, width)), mean = broadcast(row_mean(slopes, 0, width));
        for (int64_t place = 0; place < stride; place += ML_LANES) {
            vf slope = fused(-load(centred + place), along, load(slopes + place) - mean);
            store(slopes + place, slope * norm->inverse[row]);
        }
        for (int64_t place = width; place < stride; place++) slopes[place] = 0;
    }
}

#endif
