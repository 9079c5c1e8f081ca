// Quads of lanes of AVX-512 vectors.
#pragma once

#include "imbrex/simd.hpp"

#if defined(IMBREX_HAS_AVX512)

#include <immintrin.h>

IMBREX_ISA_BEGIN

// See seam_avx512.hpp on masks of all lanes.
inline constexpr __mmask16 all_lanes = 0xffff;

// x[t] = quads of lanes t of the four. Its own inverse.
IMBREX_ALWAYS_INLINE void transpose_quads(__m512i (&x)[4]) noexcept {
    __m512i const a = _mm512_maskz_shuffle_i32x4(all_lanes, x[0], x[1], 0x44),
                  b = _mm512_maskz_shuffle_i32x4(all_lanes, x[2], x[3], 0x44);
    __m512i const c = _mm512_maskz_shuffle_i32x4(all_lanes, x[0], x[1], 0xee),
                  d = _mm512_maskz_shuffle_i32x4(all_lanes, x[2], x[3], 0xee);
    x[0] = _mm512_maskz_shuffle_i32x4(all_lanes, a, b, 0x88);
    x[1] = _mm512_maskz_shuffle_i32x4(all_lanes, a, b, 0xdd);
    x[2] = _mm512_maskz_shuffle_i32x4(all_lanes, c, d, 0x88);
    x[3] = _mm512_maskz_shuffle_i32x4(all_lanes, c, d, 0xdd);
}

IMBREX_ISA_END

#endif
