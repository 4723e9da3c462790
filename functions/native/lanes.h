/* Vectors of single-precision numbers whose arithmetic is the same on every machine.
 *
 * Additions, multiplications, fused multiply-adds, divisions and square roots of IEEE 754 have one result each, so bytes
 * depend on the order of operations alone. The order is written down here: a sum over a row has ML_BLOCK partial sums,
 * whatever a register holds. Compile with -ffp-contract=off, so that no compiler fuses what is not written as `fused`.
 */
#ifndef ML_LANES_H
#define ML_LANES_H

#include <string.h>

#include "kernels.h"

#ifdef __FMA__
#include <immintrin.h>
#elif defined(__ARM_FEATURE_FMA)
#include <arm_neon.h>
#endif

#ifdef __AVX512F__
#define ML_LANES 16
#else
#define ML_LANES 8
#endif
#define ML_VECTORS (ML_BLOCK / ML_LANES)
#define ML_HALF 8
#ifdef __clang__
#define ML_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define ML_UNROLLED _Pragma("GCC unroll 16")
#endif
#define ML_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * ML_LANES), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * ML_LANES), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * ML_LANES), aligned(4), may_alias)); /* overflows as C defines it */

ML_INLINE size_t bytes(int64_t numbers) { return (size_t)numbers * sizeof(float); }
ML_INLINE void copy(float *to, const float *from, int64_t numbers) { memcpy(to, from, bytes(numbers)); }
ML_INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
ML_INLINE int64_t padded_width(int64_t width) { return (width + ML_BLOCK - 1) / ML_BLOCK * ML_BLOCK; }
/* The numbers that are computed of a row. */
ML_INLINE int64_t filled_width(int64_t width) { return (width + ML_HALF - 1) / ML_HALF * ML_HALF; }
ML_INLINE vf load(const float *place) { return *(const vf *)place; }
ML_INLINE void store(float *place, vf value) { *(vf *)place = value; }
ML_INLINE vf broadcast(float number) { return number - (vf){0}; } /* x - 0 is x, and compiled to nothing; 0 + x is not, for -0 */
ML_INLINE vi as_ints(vf value) { return (vi)value; }
ML_INLINE vf as_floats(vi value) { return (vf)value; }
/* a where the mask is set, else b. */
ML_INLINE vf select_lanes(vi mask, vf a, vf b) { return as_floats((as_ints(a) & mask) | (as_ints(b) & ~mask)); }

/* By the instructions of the machine where compilers would go lane by lane; the results are the same. No library is built
 * for a processor without fused multiply-adds: there C's mathematics library computes the programs of the tests. */
#if defined(__AVX512F__)
ML_INLINE vf fused(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
ML_INLINE vf square_root(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
ML_INLINE vf lanes_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); } /* b for NaN */
ML_INLINE vf lanes_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
ML_INLINE uint32_t lane_bits(vi mask) { return _mm512_cmplt_epi32_mask((__m512i)mask, _mm512_setzero_si512()); }
#elif defined(__FMA__)
ML_INLINE vf fused(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
ML_INLINE vf square_root(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
ML_INLINE vf lanes_min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
ML_INLINE vf lanes_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
ML_INLINE uint32_t lane_bits(vi mask) { return (uint32_t)_mm256_movemask_ps((__m256)mask); }
#else
#ifdef __ARM_FEATURE_FMA
typedef union {
    vf lanes;
    float32x4_t fours[ML_LANES / 4];
} Fours;
ML_INLINE vf fused(vf a, vf b, vf c) {
    Fours left = {a}, right = {b}, sum = {c};
    ML_UNROLLED for (int part = 0; part < ML_LANES / 4; part++)
        sum.fours[part] = vfmaq_f32(sum.fours[part], left.fours[part], right.fours[part]);
    return sum.lanes;
}
#else
ML_INLINE vf fused(vf a, vf b, vf c) {
    vf sums;
    ML_UNROLLED for (int lane = 0; lane < ML_LANES; lane++) sums[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    return sums;
}
#endif
ML_INLINE vf square_root(vf a) {
    vf roots;
    ML_UNROLLED for (int lane = 0; lane < ML_LANES; lane++) roots[lane] = __builtin_sqrtf(a[lane]);
    return roots;
}
ML_INLINE vf lanes_min(vf a, vf b) { return select_lanes(a < b, a, b); }
ML_INLINE vf lanes_max(vf a, vf b) { return select_lanes(a > b, a, b); }
ML_INLINE uint32_t lane_bits(vi mask) {
    uint32_t bits = 0;
    for (int lane = 0; lane < ML_LANES; lane++) bits |= (uint32_t)(mask[lane] & 1) << lane;
    return bits;
}
#endif

/* The sum of ML_BLOCK partial sums, in halves. */
ML_INLINE float lane_sum(const vf *partial) {
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
