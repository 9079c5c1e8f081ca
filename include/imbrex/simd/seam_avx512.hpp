// The AVX-512 seam for f32: what xsimd 8.1 spells slowly or not at all. See portable.hpp for each contract.
// Its generic fma costs clang 20 points of the FMA peak; scalef makes exp2 8.5 cycles a vector where xsimd's takes 15
// (AMD Zen 4, g++ 12).
#pragma once

#include <immintrin.h>

#include "imbrex/simd/bytes_avx512.hpp"

IMBREX_ISA_BEGIN

// Masks of all lanes: g++ 12's unmasked forms of these intrinsics warn of an uninitialised operand that they ignore; with a
// constant full mask the same instructions come out.
struct avx512_seam : avx512_bytes {
    static_assert(W == 16, "imbrex: xsimd chose other vectors than AVX-512 has; is XSIMD_DEFAULT_ARCH set?");
    static constexpr __mmask8 all8 = 0xff;
    using avx512_bytes::load;
    using avx512_bytes::load_first;
    using avx512_bytes::load_pair;

    static IMBREX_ALWAYS_INLINE V from_int(lanes<I> x) noexcept { return V(_mm512_maskz_cvtepi32_ps(all16, x.data)); }
    static IMBREX_ALWAYS_INLINE V max(V a, V b) noexcept { return V(_mm512_maskz_max_ps(all16, a.data, b.data)); }
    static IMBREX_ALWAYS_INLINE V fma(V a, V b, V c) noexcept { return V(_mm512_fmadd_ps(a.data, b.data, c.data)); }
    // vmaxps returns its second operand when either is NaN.
    static IMBREX_ALWAYS_INLINE V at_least(V bound, V x) noexcept { return V(_mm512_maskz_max_ps(all16, bound.data, x.data)); }
    static IMBREX_ALWAYS_INLINE V at_most(V bound, V x) noexcept { return V(_mm512_maskz_min_ps(all16, bound.data, x.data)); }

    static IMBREX_ALWAYS_INLINE V load(float const* p) noexcept { return V(_mm512_loadu_ps(p)); }
    static IMBREX_ALWAYS_INLINE V load(bf16 const* p) noexcept {
        return widen_bf16(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)));
    }
    static IMBREX_ALWAYS_INLINE V load(f16 const* p) noexcept {
        return V(_mm512_maskz_cvtph_ps(all16, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(p))));
    }
    static IMBREX_ALWAYS_INLINE V load_first(float const* p, int n) noexcept { return V(_mm512_maskz_loadu_ps(first(n), p)); }
    static IMBREX_ALWAYS_INLINE V load_first(bf16 const* p, int n) noexcept {
        return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
    }
    static IMBREX_ALWAYS_INLINE V load_first(f16 const* p, int n) noexcept {
        return V(_mm512_maskz_cvtph_ps(all16, _mm256_maskz_loadu_epi16(first(n), p)));
    }

    static IMBREX_ALWAYS_INLINE void load_pair(float const* p, V& low, V& high) noexcept { low = load(p), high = load(p + W); }
    static IMBREX_ALWAYS_INLINE void load_pair(f16 const* p, V& low, V& high) noexcept { low = load(p), high = load(p + W); }
    // Even elements, then odd ones: a shift and a mask for 32 elements, where widening in order takes two of each and two loads.
    static IMBREX_ALWAYS_INLINE void load_pair(bf16 const* p, V& low, V& high) noexcept {
        __m512i const bits = in_register<std::int32_t>(lanes<std::int32_t>(_mm512_loadu_si512(p))).data;
        low = V(_mm512_castsi512_ps(_mm512_maskz_slli_epi32(all16, bits, 16)));
        high = V(_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u)))));
    }
    template <class E>
    static constexpr int pair_lane(int i) noexcept {
        return std::is_same_v<E, bf16> ? i % 2 * W + i / 2 : i;
    }

    static IMBREX_ALWAYS_INLINE void store(float* p, V x) noexcept { _mm512_storeu_ps(p, x.data); }
    static IMBREX_ALWAYS_INLINE void store(bf16* p, V x) noexcept {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_bf16(x));
    }
    static IMBREX_ALWAYS_INLINE void store(f16* p, V x) noexcept {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_f16(x));
    }
    static IMBREX_ALWAYS_INLINE void store_first(float* p, V x, int n) noexcept { _mm512_mask_storeu_ps(p, first(n), x.data); }
    static IMBREX_ALWAYS_INLINE void store_first(bf16* p, V x, int n) noexcept {
        _mm256_mask_storeu_epi16(p, first(n), round_bf16(x));
    }
    static IMBREX_ALWAYS_INLINE void store_first(f16* p, V x, int n) noexcept {
        _mm256_mask_storeu_epi16(p, first(n), round_f16(x));
    }

    static IMBREX_ALWAYS_INLINE void transpose(V (&r)[16]) noexcept {
        __m512 t[16], u[16];
        IMBREX_UNROLL for (int i = 0; i < 8; ++i) {
            t[2 * i] = _mm512_maskz_unpacklo_ps(all16, r[2 * i].data, r[2 * i + 1].data);
            t[2 * i + 1] = _mm512_maskz_unpackhi_ps(all16, r[2 * i].data, r[2 * i + 1].data);
        }
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) {
            u[4 * i] = unpack_low(t[4 * i], t[4 * i + 2]);
            u[4 * i + 1] = unpack_high(t[4 * i], t[4 * i + 2]);
            u[4 * i + 2] = unpack_low(t[4 * i + 1], t[4 * i + 3]);
            u[4 * i + 3] = unpack_high(t[4 * i + 1], t[4 * i + 3]);
        }
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) {
            t[i] = _mm512_maskz_shuffle_f32x4(all16, u[i], u[4 + i], 0x88);
            t[4 + i] = _mm512_maskz_shuffle_f32x4(all16, u[i], u[4 + i], 0xdd);
            t[8 + i] = _mm512_maskz_shuffle_f32x4(all16, u[8 + i], u[12 + i], 0x88);
            t[12 + i] = _mm512_maskz_shuffle_f32x4(all16, u[8 + i], u[12 + i], 0xdd);
        }
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) {
            r[i] = V(_mm512_maskz_shuffle_f32x4(all16, t[i], t[8 + i], 0x88));
            r[8 + i] = V(_mm512_maskz_shuffle_f32x4(all16, t[i], t[8 + i], 0xdd));
            r[4 + i] = V(_mm512_maskz_shuffle_f32x4(all16, t[4 + i], t[12 + i], 0x88));
            r[12 + i] = V(_mm512_maskz_shuffle_f32x4(all16, t[4 + i], t[12 + i], 0xdd));
        }
    }

    // A 16-to-1 tree of 15 adds: each blends what stays in place and shuffles only the rest, since shuffles, unlike blends,
    // compete with FMAs. In quads of lanes, a level turns [a.. a..] and [b.. b..] into [a.. b..] with half as many terms.
    static IMBREX_ALWAYS_INLINE V sums(V (&r)[16]) noexcept {
        __m512 t[8], u[4], w[2];
        __m512i const odd_quads = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
        IMBREX_UNROLL for (int i = 0; i < 8; ++i) {    // quads: r[i] r[i] r[i + 8] r[i + 8]
            __m512 const a = r[i].data, b = r[i + 8].data;
            t[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_maskz_shuffle_f32x4(all16, a, b, 0x4e));
        }
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) {    // r[i] r[i + 4] r[i + 8] r[i + 12]
            __m512 const a = t[i], b = t[i + 4];
            u[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, odd_quads, b));
        }
        IMBREX_UNROLL for (int i = 0; i < 2; ++i) {    // in each quad: r[i] r[i] r[i + 2] r[i + 2]
            __m512 const a = u[i], b = u[i + 2];
            w[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
        }
        __m512 const swapped = _mm512_mask_blend_ps(0xaaaa, w[1], w[0]);
        return V(_mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, w[0], w[1]), _mm512_shuffle_ps(swapped, swapped, 0xb1)));
    }

    template <int N>
    static IMBREX_ALWAYS_INLINE void exp2(array_of<V, N>& x) noexcept {
        constexpr float c[] = {0.00133999312f, 0.00961848896f, 0.0555032878f, 0.240226469f, 0.693147206f, 1.0f};
        array_of<V, N> z, p;
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = at_least(V(-200.0f), x[i]);    // -inf - -inf would be NaN
        IMBREX_UNROLL for (int i = 0; i < N; ++i) z[i] =
            V(_mm512_maskz_roundscale_ps(all16, x[i].data, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = V(_mm512_sub_ps(x[i].data, z[i].data));
        IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = V(0.00015345812f);
        IMBREX_UNROLL for (int k = 0; k < 6; ++k) { IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = fma(p[i], x[i], V(c[k])); }
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = V(_mm512_maskz_scalef_ps(all16, p[i].data, z[i].data));
    }

private:
    static IMBREX_ALWAYS_INLINE __mmask16 first(int n) noexcept { return static_cast<__mmask16>((1u << n) - 1u); }

    static IMBREX_ALWAYS_INLINE V widen_bf16(__m256i bits) noexcept {
        return V(_mm512_castsi512_ps(_mm512_maskz_slli_epi32(all16, _mm512_maskz_cvtepu16_epi32(all16, bits), 16)));
    }
    // Decision: integer rounding, not vcvtneps2bf16, which flushes denormals; outputs are stored once per row.
    static IMBREX_ALWAYS_INLINE __m256i round_bf16(V x) noexcept {
        __m512i const u = _mm512_castps_si512(x.data);
        __m512i const even = _mm512_and_si512(_mm512_maskz_srli_epi32(all16, u, 16), _mm512_set1_epi32(1));
        __m512i const rounded = _mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
        __m512i const quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
        __mmask16 const is_nan = _mm512_cmp_ps_mask(x.data, x.data, _CMP_UNORD_Q);
        return _mm512_maskz_cvtepi32_epi16(all16,
                                           _mm512_maskz_srli_epi32(all16, _mm512_mask_mov_epi32(rounded, is_nan, quiet), 16));
    }
    static IMBREX_ALWAYS_INLINE __m256i round_f16(V x) noexcept {
        return _mm512_maskz_cvtps_ph(all16, x.data, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    static IMBREX_ALWAYS_INLINE __m512 unpack_low(__m512 a, __m512 b) noexcept {
        return _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(all8, _mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
    static IMBREX_ALWAYS_INLINE __m512 unpack_high(__m512 a, __m512 b) noexcept {
        return _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(all8, _mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
};

IMBREX_ISA_END
