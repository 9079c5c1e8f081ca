// AVX-512 vectors of q8_0, q4_0 and int4; see encoded.hpp for what each function is.
// A nibble is looked up in a register of 16 floats: VPERMPS looks at no more than four bits of each index, so a shift of bytes
// that were widened to 32 bits is all it takes; where a block has one scale, it is the 16 floats that are scaled.
#pragma once

#include <immintrin.h>

#include "imbrex/encoding.hpp"
#include "imbrex/simd/seam_avx512.hpp"

IMBREX_ISA_BEGIN

struct avx512_blocks {
    using V = lanes<float>;
    static constexpr int W = 16;
    static constexpr __mmask16 all16 = 0xffff;

    static IMBREX_ALWAYS_INLINE V codes(q8_0_block const* row, index d) noexcept {
        return avx512_seam::load(row[d / 32].qs + d % 32);
    }
    static IMBREX_ALWAYS_INLINE V codes(q4_0_block const* row, index d) noexcept {
        __m512i const bytes = widen(row[d / 32].qs);
        return look_up(nibble_values(), d % 32 == 0 ? bytes : high_nibbles(bytes));
    }
    // Eight bytes; each 64-bit lane holds its byte, and 32 bits further up the byte shifted by a nibble.
    static IMBREX_ALWAYS_INLINE V codes(int4_pair const* row, index d) noexcept {
        __m128i const packed = _mm_loadl_epi64(reinterpret_cast<__m128i const*>(row + d / 2));
        __m512i const bytes = _mm512_maskz_cvtepu8_epi64(0xff, packed);
        return look_up(nibble_values(), _mm512_or_si512(bytes, _mm512_maskz_slli_epi64(0xff, bytes, 28)));
    }

    static IMBREX_ALWAYS_INLINE void code_pair(q8_0_block const* row, index d, V& low, V& high) noexcept {
        avx512_seam::load_pair(row[d / 32].qs, low, high);
    }
    static IMBREX_ALWAYS_INLINE void code_pair(q4_0_block const* row, index d, V& low, V& high) noexcept {
        nibble_pair(nibble_values(), row[d / 32].qs, low, high);
    }
    static IMBREX_ALWAYS_INLINE void code_pair(int4_pair const* row, index d, V& low, V& high) noexcept {
        nibble_pair(nibble_values(), row + d / 2, low, high);
    }

    static IMBREX_ALWAYS_INLINE V scale(f16 d) noexcept {
        return V(_mm512_maskz_cvtph_ps(all16, _mm256_set1_epi16(static_cast<short>(d.bits))));
    }

    static IMBREX_ALWAYS_INLINE void pair(q8_0_block const* row, index d, V& low, V& high) noexcept {
        V const s = scale(row[d / 32].d);
        code_pair(row, d, low, high);
        low = low * s, high = high * s;
    }
    static IMBREX_ALWAYS_INLINE void pair(q4_0_block const* row, index d, V& low, V& high) noexcept {
        nibble_pair(nibble_values() * scale(row[d / 32].d), row[d / 32].qs, low, high);
    }

private:
    static IMBREX_ALWAYS_INLINE V nibble_values() noexcept {
        return V(_mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
    }
    static IMBREX_ALWAYS_INLINE __m512i widen(void const* bytes) noexcept {
        return _mm512_maskz_cvtepu8_epi32(all16, _mm_loadu_si128(static_cast<__m128i const*>(bytes)));
    }
    static IMBREX_ALWAYS_INLINE __m512i high_nibbles(__m512i bytes) noexcept { return _mm512_maskz_srli_epi32(all16, bytes, 4); }
    static IMBREX_ALWAYS_INLINE V look_up(V values, __m512i nibbles) noexcept {
        return V(_mm512_maskz_permutexvar_ps(all16, nibbles, values.data));
    }
    static IMBREX_ALWAYS_INLINE void nibble_pair(V values, void const* p, V& low, V& high) noexcept {
        __m512i const bytes = in_register<std::int32_t>(lanes<std::int32_t>(widen(p))).data;
        low = look_up(values, bytes);
        high = look_up(values, high_nibbles(bytes));
    }
};

IMBREX_ISA_END
