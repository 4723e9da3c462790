/* exp, log and tanh of vectors, with infinities and NaN as in C99. Units in the last place between a result and the exact
 * number: exp at most 1.013, log 0.83, tanh 2.03. */
#ifndef ELEMENTARY_H
#define ELEMENTARY_H

#include "lanes.h"

#define SIGN ((int32_t)0x80000000)
/* ln 2 as two numbers, the first short enough that its multiples up to 2^8 are exact. */
#define LN2_HIGH 0.693145751953125f
#define LN2_LOW 1.42860677e-6f

INLINE vf magnitude(vf x) { return number(bits(x) & ~SIGN); }
/* x / ln 2 rounded to an integer, as a number and as an integer; any for NaN. */
INLINE vi halvings(vf x, vf *times) {
    const vf shift = all(12582912.0f); /* 1.5 * 2^23: the last bits of what is added to it are an integer's */
    vf shifted = fused(x, all(1.44269504f), shift);
    *times = shifted - shift;
    return bits(shifted) - bits(shift);
}
INLINE vf power_of_two(vi exponent) { return number((vi)(((vu)exponent + 127) << 23)); } /* exponent from -126 to 127 */

/* e^r - 1 for |r| <= ln 2 / 2: r + r^2 (1/2 + r/6 + ...). */
INLINE vf short_expm1(vf r) {
    vf sum = all(1.9875691500e-4f);
    sum = fused(sum, r, all(1.3981999507e-3f));
    sum = fused(sum, r, all(8.3334519073e-3f));
    sum = fused(sum, r, all(4.1665795894e-2f));
    sum = fused(sum, r, all(1.6666665459e-1f));
    sum = fused(sum, r, all(0.5f));
    return fused(sum, r * r, r);
}

INLINE vf exponential(vf x) {
    vf bounded = least(all(89.0f), most(all(-104.0f), x)); /* NaN stays */
    vf times;
    vi exponent = halvings(bounded, &times), half = exponent >> 1; /* in two steps: subnormal and infinite results */
    vf rest = fused(times, all(-LN2_LOW), fused(times, all(-LN2_HIGH), bounded));
    vf scale = power_of_two(half);
    return fused(short_expm1(rest), scale, scale) * power_of_two(exponent - half);
}

/* Vectors that go together, step by step, as a processor computes the others while it waits for the result of one. */
#define GROUP 4
#define EACH UNROLLED for (int each = 0; each < GROUP; each++)

/* tanh |x| = m / (m + 2) for m = e^(2|x|) - 1, which is accurate near 0 too. */
INLINE void tangents_of_group(float *numbers) {
    vf x[GROUP], bounded[GROUP], times[GROUP], scale[GROUP], rest[GROUP], m[GROUP], quotient[GROUP], lost[GROUP];
    EACH x[each] = load(numbers + each * LANES);
    EACH bounded[each] = magnitude(x[each]) + magnitude(x[each]);
    EACH bounded[each] = least(all(20.0f), bounded[each]); /* NaN stays */
    EACH scale[each] = power_of_two(halvings(bounded[each], &times[each]));
    EACH rest[each] = fused(times[each], all(-LN2_LOW), fused(times[each], all(-LN2_HIGH), bounded[each]));
    EACH m[each] = fused(short_expm1(rest[each]), scale[each], scale[each] - 1.0f);
    EACH quotient[each] = m[each] / (m[each] + 2.0f);
    EACH lost[each] = m[each] - ((m[each] + 2.0f) - 2.0f);
    /* from 1/2 on the sum loses less than the quotient does */
    EACH lost[each] = where(quotient[each] < 0.5f, lost[each], all(0));
    EACH rest[each] = fused(quotient[each], all(0.5f), all(-0.5f)); /* 1 / (m + 2) = (1 - quotient) / 2 */
    EACH quotient[each] = fused(quotient[each] * lost[each], rest[each], quotient[each]);
    EACH store(numbers + each * LANES, number(bits(quotient[each]) | (bits(x[each]) & SIGN)));
}

INLINE void hyperbolic_tangents(float *numbers, int64_t count) {
    for (; count >= GROUP * LANES; count -= GROUP * LANES, numbers += GROUP * LANES) tangents_of_group(numbers);
    float rest[GROUP * LANES] = {0};
    memcpy(rest, numbers, count * sizeof(float));
    tangents_of_group(rest);
    memcpy(numbers, rest, count * sizeof(float));
}

/* x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); the polynomial is that of Moshier's Cephes library, logf. */
INLINE vf logarithm(vf x) {
    vi is_small = bits(x) < 0x00800000; /* subnormal, 0 or negative */
    vf scaled = where(is_small, x * 8388608.0f, x);
    vi exponent = (vi)((vu)scaled - 0x3f3504f3) >> 23, shift = is_small & 23;
    vf f = number((vi)((vu)scaled - ((vu)exponent << 23))) - 1.0f, e = __builtin_convertvector(exponent - shift, vf);
    vf sum = all(7.0376836292e-2f);
    sum = fused(sum, f, all(-1.1514610310e-1f));
    sum = fused(sum, f, all(1.1676998740e-1f));
    sum = fused(sum, f, all(-1.2420140846e-1f));
    sum = fused(sum, f, all(1.4249322787e-1f));
    sum = fused(sum, f, all(-1.6668057665e-1f));
    sum = fused(sum, f, all(2.0000714765e-1f));
    sum = fused(sum, f, all(-2.4999993993e-1f));
    sum = fused(sum, f, all(3.3333331174e-1f));
    vf square = f * f, small = fused(e, all(-2.12194440e-4f), sum * f * square);
    small = fused(square, all(-0.5f), small);
    vf result = fused(e, all(0.693359375f), f + small);
    result = where(x == __builtin_inff(), x, result);
    result = where(x == 0.0f, all(-__builtin_inff()), result);
    return where((x < 0.0f) | (x != x), all(__builtin_nanf("")), result);
}

enum Function { EXPONENTIAL, LOGARITHM, HYPERBOLIC_TANGENT };

/* A function of every number, in place. */
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
