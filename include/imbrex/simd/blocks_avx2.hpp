// AVX2 (with F16C) vectors of q8_0, q4_0 and int4; see encoded.hpp for what each function is.
#pragma once

#include <immintrin.h>

#include "imbrex/encoding.hpp"
#include "imbrex/simd/seam_avx2.hpp"

IMBREX_ISA_BEGIN

struct avx2_blocks {
    using V = lanes<float>;
    static constexpr int W = 8;

    static IMBREX_ALWAYS_INLINE V codes(q8_0_block const* row, index d) noexcept {
        return avx2_seam::load(row[d / 32].qs + d % 32);
    }
    static IMBREX_ALWAYS_INLINE V codes(q4_0_block const* row, index d) noexcept {
        __m256i const bytes = widen(row[d / 32].qs + d % 16);
        return values(d % 32 < 16 ? bytes : _mm256_srli_epi32(bytes, 4));
    }
    // Four bytes in every lane; lane i shifted by 4 i bits.
    static IMBREX_ALWAYS_INLINE V codes(int4_pair const* row, index d) noexcept {
        std::int32_t bytes;
        std::memcpy(&bytes, row + d / 2, sizeof bytes);
        __m256i const shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        return values(_mm256_srlv_epi32(_mm256_set1_epi32(bytes), shifts));
    }

    static IMBREX_ALWAYS_INLINE void code_pair(q8_0_block const* row, index d, V& low, V& high) noexcept {
        low = codes(row, d), high = codes(row, d + W);
    }
    static IMBREX_ALWAYS_INLINE void code_pair(q4_0_block const* row, index d, V& low, V& high) noexcept {
        low = codes(row, d), high = codes(row, d + W);
    }
    static IMBREX_ALWAYS_INLINE void code_pair(int4_pair const* row, index d, V& low, V& high) noexcept {
        __m256i const bytes = widen(row + d / 2);
        low = values(bytes), high = values(_mm256_srli_epi32(bytes, 4));
    }

    static IMBREX_ALWAYS_INLINE V scale(f16 d) noexcept { return V(_mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(d.bits)))); }

    template <block_encoded E>
    static IMBREX_ALWAYS_INLINE void pair(E const* row, index d, V& low, V& high) noexcept {
        V const s = scale(row[d / 32].d);
        code_pair(row, d, low, high);
        low = low * s, high = high * s;
    }

private:
    static IMBREX_ALWAYS_INLINE __m256i widen(void const* bytes) noexcept {
        return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<__m128i const*>(bytes)));
    }
    // Of the low nibble of each lane.
    static IMBREX_ALWAYS_INLINE V values(__m256i lanes_of_bits) noexcept {
        __m256i const nibbles = _mm256_and_si256(lanes_of_bits, _mm256_set1_epi32(15));
        return V(_mm256_cvtepi32_ps(_mm256_sub_epi32(nibbles, _mm256_set1_epi32(8))));
    }
};

IMBREX_ISA_END
