/* exp, log and tanh of vectors, with infinities and NaN as in C99. Units in the last place between a result and the exact
 * number: exp at most 1.013, log 0.83, tanh 2.03. */
#ifndef ML_ELEMENTARY_H
#define ML_ELEMENTARY_H

#include "lanes.h"

#define ML_SIGN ((int32_t)0x80000000)
/* ln 2 as two numbers, the first short enough that its multiples up to 2^8 are exact. */
#define ML_LN2_HIGH 0.693145751953125f
#define ML_LN2_LOW 1.42860677e-6f

ML_INLINE vf magnitude(vf x) { return as_floats(as_ints(x) & ~ML_SIGN); }
/* x / ln 2 rounded to an integer, as a number and as an integer; any for NaN. */
ML_INLINE vi halvings(vf x, vf *times) {
    const vf shift = broadcast(12582912.0f); /* 1.5 * 2^23: the last bits of what is added to it are an integer's */
    vf shifted = fused(x, broadcast(1.44269504f), shift);
    *times = shifted - shift;
    return as_ints(shifted) - as_ints(shift);
}
ML_INLINE vf power_of_two(vi exponent) { return as_floats((vi)(((vu)exponent + 127) << 23)); } /* exponent from -126 to 127 */

/* e^r - 1 for |r| <= ln 2 / 2: r + r^2 (1/2 + r/6 + ...). */
ML_INLINE vf short_expm1(vf r) {
    vf sum = broadcast(1.9875691500e-4f);
    sum = fused(sum, r, broadcast(1.3981999507e-3f));
    sum = fused(sum, r, broadcast(8.3334519073e-3f));
    sum = fused(sum, r, broadcast(4.1665795894e-2f));
    sum = fused(sum, r, broadcast(1.6666665459e-1f));
    sum = fused(sum, r, broadcast(0.5f));
    return fused(sum, r * r, r);
}

ML_INLINE vf exponential(vf x) {
    vf bounded = lanes_min(broadcast(89.0f), lanes_max(broadcast(-104.0f), x)); /* NaN stays */
    vf times;
    vi exponent = halvings(bounded, &times), half = exponent >> 1; /* in two steps: subnormal and infinite results */
    vf rest = fused(times, broadcast(-ML_LN2_LOW), fused(times, broadcast(-ML_LN2_HIGH), bounded));
    vf scale = power_of_two(half);
    return fused(short_expm1(rest), scale, scale) * power_of_two(exponent - half);
}

/* Vectors that go together, step by step, as a processor computes the others while it waits for the result of one. */
#define ML_GROUP 4
#define ML_EACH ML_UNROLLED for (int vector = 0; vector < ML_GROUP; vector++)

/* tanh |x| = m / (m + 2) for m = e^(2|x|) - 1, which is accurate near 0 too. */
ML_INLINE void tangents_of_group(float *numbers) {
    vf x[ML_GROUP], bounded[ML_GROUP], times[ML_GROUP], scale[ML_GROUP], rest[ML_GROUP], m[ML_GROUP], quotient[ML_GROUP], lost[ML_GROUP];
    ML_EACH x[vector] = load(numbers + vector * ML_LANES);
    ML_EACH bounded[vector] = magnitude(x[vector]) + magnitude(x[vector]);
    ML_EACH bounded[vector] = lanes_min(broadcast(20.0f), bounded[vector]); /* NaN stays */
    ML_EACH scale[vector] = power_of_two(halvings(bounded[vector], &times[vector]));
    ML_EACH rest[vector] = fused(times[vector], broadcast(-ML_LN2_LOW), fused(times[vector], broadcast(-ML_LN2_HIGH), bounded[vector]));
    ML_EACH m[vector] = fused(short_expm1(rest[vector]), scale[vector], scale[vector] - 1.0f);
    ML_EACH quotient[vector] = m[vector] / (m[vector] + 2.0f);
    ML_EACH lost[vector] = m[vector] - ((m[vector] + 2.0f) - 2.0f);
    /* from 1/2 on the sum loses less than the quotient does */
    ML_EACH lost[vector] = select_lanes(quotient[vector] < 0.5f, lost[vector], broadcast(0));
    ML_EACH rest[vector] = fused(quotient[vector], broadcast(0.5f), broadcast(-0.5f)); /* 1 / (m + 2) = (1 - quotient) / 2 */
    ML_EACH quotient[vector] = fused(quotient[vector] * lost[vector], rest[vector], quotient[vector]);
    ML_EACH store(numbers + vector * ML_LANES, as_floats(as_ints(quotient[vector]) | (as_ints(x[vector]) & ML_SIGN)));
}

ML_INLINE void hyperbolic_tangents(float *numbers, int64_t count) {
    for (; count >= ML_GROUP * ML_LANES; count -= ML_GROUP * ML_LANES, numbers += ML_GROUP * ML_LANES)
        tangents_of_group(numbers);
    float rest[ML_GROUP * ML_LANES] = {0};
    copy(rest, numbers, count);
    tangents_of_group(rest);
    copy(numbers, rest, count);
}

/* x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); the polynomial is that of Moshier's Cephes library, logf. */
ML_INLINE vf logarithm(vf x) {
    vi is_small = as_ints(x) < 0x00800000; /* subnormal, 0 or negative */
    vf scaled = select_lanes(is_small, x * 8388608.0f, x);
    vi exponent = (vi)((vu)scaled - 0x3f3504f3) >> 23, shift = is_small & 23;
    vf f = as_floats((vi)((vu)scaled - ((vu)exponent << 23))) - 1.0f, e = __builtin_convertvector(exponent - shift, vf);
    vf sum = broadcast(7.0376836292e-2f);
    sum = fused(sum, f, broadcast(-1.1514610310e-1f));
    sum = fused(sum, f, broadcast(1.1676998740e-1f));
    sum = fused(sum, f, broadcast(-1.2420140846e-1f));
    sum = fused(sum, f, broadcast(1.4249322787e-1f));
    sum = fused(sum, f, broadcast(-1.6668057665e-1f));
    sum = fused(sum, f, broadcast(2.0000714765e-1f));
    sum = fused(sum, f, broadcast(-2.4999993993e-1f));
    sum = fused(sum, f, broadcast(3.3333331174e-1f));
    vf square = f * f, small = fused(e, broadcast(-2.12194440e-4f), sum * f * square);
    small = fused(square, broadcast(-0.5f), small);
    vf result = fused(e, broadcast(0.693359375f), f + small);
    result = select_lanes(x == __builtin_inff(), x, result);
    result = select_lanes(x == 0.0f, broadcast(-__builtin_inff()), result);
    return select_lanes((x < 0.0f) | (x != x), broadcast(__builtin_nanf("")), result);
}

#endif
