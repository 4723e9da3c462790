/* exp and log(1 + exp) in double precision, operation by operation those of functions/environments/mpe/exact_world.py:
 * additions, multiplications and divisions alone, none of them fused. */
#ifndef ML_DOUBLES_H
#define ML_DOUBLES_H

#include <assert.h>

#include "lanes.h"

#define ML_LN2_HIGH_DOUBLE 6.93147180369123816490e-01
#define ML_LN2_LOW_DOUBLE 1.90821492927058770002e-10
#define ML_FAR_APART -40.0

/* Horner's scheme, highest power first. */
ML_INLINE double polynomial(const double *coefficients, int count, double x) {
    double sum = coefficients[0] * x;
    for (int place = 1; place + 1 < count; place++) sum = (sum + coefficients[place]) * x;
    return sum + coefficients[count - 1];
}

/* Of a number from -700 to 700, or NaN. */
static double exponential_double(double x) {
    assert(!(x < -700 || x > 700));
    static const double coefficients[] = {4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05,
                                -2.77777777770155933842e-03, 1.66666666666666019037e-01};
    const double shift = 6755399441055744.0; /* 1.5 * 2^52 */
    double shifted = x * 1.44269504088896338700e00 + shift, k = shifted - shift, power;
    double high = x - k * ML_LN2_HIGH_DOUBLE, low = k * ML_LN2_LOW_DOUBLE, r = high - low, square = r * r;
    double c = r - square * polynomial(coefficients, 5, square), result = 1 - ((low - r * c / (2 - c)) - high);
    int64_t exponent, of_shift;
    memcpy(&exponent, &shifted, 8);
    memcpy(&of_shift, &shift, 8);
    uint64_t pattern = (uint64_t)(exponent - of_shift + 1023) << 52;
    memcpy(&power, &pattern, 8);
    return result * power;
}

static double logarithm_double(double x) { /* of 1 + x */
    static const double coefficients[] = {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                                2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                                6.666666666666735130e-01};
    double k = x > 0.4142135623730951, f = k ? (x - 1) * 0.5 : x, half = 0.5 * f * f, s = f / (2 + f), square = s * s;
    double sum = half + square * polynomial(coefficients, 7, square);
    return k * ML_LN2_HIGH_DOUBLE - ((half - (s * sum + k * ML_LN2_LOW_DOUBLE)) - f);
}

static double softplus_double(double x) {
    if (!(x > ML_FAR_APART)) return 0;
    double size = x > 0 ? x : -x;
    return (x > 0 ? x : 0) + logarithm_double(exponential_double(size > 700 ? -700 : -size));
}

#endif
