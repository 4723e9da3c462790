/* Vectors of single-precision numbers whose arithmetic is the same on every machine.
 *
 * Additions, multiplications, fused multiply-adds, divisions and square roots of IEEE 754 have one result each, so bytes
 * depend on the order of operations alone. The order is written down here: a sum over a row has BLOCK partial sums,
 * whatever a register holds. Compile with -ffp-contract=off, so that no compiler fuses what is not written as `fused`.
 */
#ifndef LANES_H
#define LANES_H

#include <stdint.h>
#include <string.h>

#ifdef __FMA__
#include <immintrin.h>
#endif

/* Rows of activations and packed weights are padded with zeros to multiples of BLOCK numbers. */
#define BLOCK 16
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define VECTORS (BLOCK / LANES)
#define HALF 8
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* overflows as C defines it */

INLINE int64_t padded(int64_t width) { return (width + BLOCK - 1) / BLOCK * BLOCK; }
/* The numbers that are computed of a row. */
INLINE int64_t filled(int64_t width) { return (width + HALF - 1) / HALF * HALF; }
INLINE vf load(const float *place) { return *(const vf *)place; }
INLINE void store(float *place, vf value) { *(vf *)place = value; }
INLINE vf all(float number) { return number - (vf){0}; } /* x - 0 is x, and compiled to nothing; 0 + x is not, for -0 */
INLINE vi bits(vf value) { return (vi)value; }
INLINE vf number(vi value) { return (vf)value; }
/* a where the mask is set, else b. */
INLINE vf where(vi mask, vf a, vf b) { return number((bits(a) & mask) | (bits(b) & ~mask)); }

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
INLINE float fused_one(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
/* a b + c, rounded once: the product is exact in double, the sum is rounded to odd, and that to single precision, after
 * Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Transactions on Computers, 2008. */
INLINE float fused_one(float a, float b, float c) {
    double product = (double)a * b, sum = product + c, part = sum - product;
    double error = (product - (sum - part)) + (c - part);
    int64_t pattern;
    memcpy(&pattern, &sum, 8);
    if (error != 0 && sum - sum == 0 && !(pattern & 1)) {
        pattern += (error > 0) == (sum > 0) ? 1 : -1;
        memcpy(&sum, &pattern, 8);
    }
    return (float)sum;
}
#endif

/* By the instructions of the machine where compilers would go lane by lane; the results are the same. */
#if defined(__AVX512F__)
INLINE vf fused(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
INLINE vf root(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
INLINE vf least(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); } /* b for NaN */
INLINE vf most(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
#elif defined(__FMA__)
INLINE vf fused(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
INLINE vf root(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
INLINE vf least(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vf most(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
#else
INLINE vf fused(vf a, vf b, vf c) {
    vf sums;
    UNROLLED for (int lane = 0; lane < LANES; lane++) sums[lane] = fused_one(a[lane], b[lane], c[lane]);
    return sums;
}
INLINE vf root(vf a) {
    vf roots;
    UNROLLED for (int lane = 0; lane < LANES; lane++) roots[lane] = __builtin_sqrtf(a[lane]);
    return roots;
}
INLINE vf least(vf a, vf b) { return where(a < b, a, b); }
INLINE vf most(vf a, vf b) { return where(a > b, a, b); }
#endif

/* The sum of BLOCK partial sums, in halves. */
INLINE float total(const vf *partial) {
    eight high, low;
    four upper, lower;
    memcpy(&low, partial, sizeof low);
    memcpy(&high, (const char *)partial + sizeof low, sizeof high);
    low += high;
    memcpy(&lower, &low, sizeof lower);
    memcpy(&upper, (const char *)&low + sizeof lower, sizeof upper);
    lower += upper;
    return (lower[0] + lower[2]) + (lower[1] + lower[3]);
}

#endif
