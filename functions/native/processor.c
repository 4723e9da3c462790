/* Whether this processor, and its system, have the instructions that the kernels were compiled for. This file alone is
 * compiled for the oldest processor of its kind: with other instructions the question itself would end the process. The
 * compilers' own question, __builtin_cpu_supports, is answered with no by what zig links. */
#include "kernels.h"

#ifdef __x86_64__
#include <cpuid.h>

/* Bits of cpuid's leaves (ecx of 1 and 0x80000001, ebx of 7) and of the registers that the system saves: Intel's manual
 * of the architecture, volume 1, "Detection of AVX2" and "Detection of AVX-512". The levels are those of the x86-64 ABI. */
enum {
    SSE3_SSSE3_SSE4 = 1 << 0 | 1 << 9 | 1 << 19 | 1 << 20,
    FMA_CX16_MOVBE_POPCNT = 1 << 12 | 1 << 13 | 1 << 22 | 1 << 23,
    OSXSAVE_AVX_F16C = 1 << 27 | 1 << 28 | 1 << 29,
    LAHF_LZCNT = 1 << 0 | 1 << 5,
    BMI1_AVX2_BMI2 = 1 << 3 | 1 << 5 | 1 << 8,
    AVX512_F_DQ_CD_BW = 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30,
    YMM = 0x06,
    ZMM = 0xe6,
};
#define AVX512_VL (1u << 31)

static inline __attribute__((always_inline)) int has(uint32_t found, uint32_t wanted) { return !(~found & wanted); }

int64_t runs_here(void) {
    uint32_t eax, ebx, ecx, edx, saved, high;
    uint32_t leaf_1 = SSE3_SSSE3_SSE4 | FMA_CX16_MOVBE_POPCNT | OSXSAVE_AVX_F16C;
    uint32_t leaf_7 = BMI1_AVX2_BMI2 | (ml_level > 3 ? AVX512_F_DQ_CD_BW | AVX512_VL : 0);
    if (ml_level < 3) return 1;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !has(ecx, leaf_1)) return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!has(saved, ml_level > 3 ? ZMM : YMM)) return 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !has(ebx, leaf_7)) return 0;
    return __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) && has(ecx, LAHF_LZCNT);
}
#else
int64_t runs_here(void) { return 1; }
#endif
