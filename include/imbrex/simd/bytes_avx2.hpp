// AVX2 loads of one-byte elements, widened to f32 exactly: int8 (whole numbers, their scale not applied) and, with F16C,
// f8_e4m3 and f8_e5m2. Part of the seam (seam_avx2.hpp).
#pragma once

#include <immintrin.h>

#include "imbrex/simd/portable.hpp"

IMBREX_ISA_BEGIN

struct avx2_bytes : portable_seam<float> {
    using portable_seam<float>::load;

    static IMBREX_ALWAYS_INLINE V load(std::int8_t const* p) noexcept {
        return V(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(p))));
    }
#ifdef __F16C__
    // As f16, which is 2^8 too small, and denormal where e4m3 is: widening that costs nothing extra, unlike denormal f32.
    static IMBREX_ALWAYS_INLINE V load(f8_e4m3 const* p) noexcept {
        __m128i const exponent = _mm_set1_epi16(0x3f80);
        __m128i const shifted = _mm_slli_epi16(_mm_cvtepi8_epi16(load8(p)), 7);
        __m128i const bits = _mm_and_si128(shifted, _mm_set1_epi16(static_cast<short>(0xbf80)));
        __m128i const nan = _mm_cmpeq_epi16(_mm_and_si128(bits, exponent), exponent);
        __m128i const f16_bits = _mm_or_si128(bits, _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
        return V(_mm256_mul_ps(_mm256_cvtph_ps(f16_bits), _mm256_set1_ps(256.f)));
    }
    static IMBREX_ALWAYS_INLINE V load(f8_e5m2 const* p) noexcept {
        return V(_mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(load8(p)), 8)));
    }
#endif

    // No constrained template: for clang++ 14 it would hide the one of portable_seam, which has the same parameters.
    using portable_seam<float>::load_pair;
    static IMBREX_ALWAYS_INLINE void load_pair(std::int8_t const* p, V& low, V& high) noexcept {
        low = load(p), high = load(p + W);
    }
    static IMBREX_ALWAYS_INLINE void load_pair(f8_e4m3 const* p, V& low, V& high) noexcept { low = load(p), high = load(p + W); }
    static IMBREX_ALWAYS_INLINE void load_pair(f8_e5m2 const* p, V& low, V& high) noexcept { low = load(p), high = load(p + W); }

private:
    static IMBREX_ALWAYS_INLINE __m128i load8(void const* p) noexcept { return _mm_loadl_epi64(static_cast<__m128i const*>(p)); }
};

IMBREX_ISA_END
