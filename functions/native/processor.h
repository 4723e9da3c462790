/* Whether this processor, and its system, have the instructions that the library was compiled to. The compilers' own
 * question, __builtin_cpu_supports, is answered with no by what zig links. */
#pragma once
#include <stdint.h>

#ifdef __AVX2__
#include <cpuid.h>

/* The bits of cpuid's leaves 1 (ecx) and 7 (ebx), and of the registers that the system saves (Intel's manual of the
 * architecture, volume 1, "Detection of AVX2" and "Detection of AVX-512"). */
#define FMA (1u << 12)
#define SYSTEM_SAVES (1u << 27)
#define AVX2 (1u << 5 | 1u << 3 | 1u << 8)
#define AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)
#define YMM 0x06u
#define ZMM 0xe6u

static int64_t has(uint32_t leaf_7, uint32_t registers) {
    uint32_t eax, ebx, ecx, edx, saved, high;
    if (!__get_cpuid_count(1, 0, &eax, &ebx, &ecx, &edx) || ~ecx & (FMA | SYSTEM_SAVES)) return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    return !(~saved & registers) && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && !(~ebx & leaf_7);
}
#endif

static int64_t is_suitable(void) {
#if defined(__AVX512F__)
    return has(AVX2 | AVX512, ZMM);
#elif defined(__AVX2__)
    return has(AVX2, YMM);
#else
    return 1;
#endif
}
