// bf16 in pairs: VDPBF16PS adds two products to each of 16 lanes of f32.
//
// It takes denormals, in and out, as 0, rounds to nearest after each product, the one of the odd numbers first, and raises
// nothing, whatever the floating-point environment says (Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 2,
// VDPBF16PS; VCVTNE2PS2BF16 likewise). A vector of pairs is carried as lanes of f32 of the same bits, on which only loads,
// stores, broadcasts and transpositions may be used.
#pragma once

#include "imbrex/simd.hpp"
#include "imbrex/simd/quads_avx512.hpp"

#if defined(IMBREX_HAS_AVX512) && defined(__AVX512BF16__)
#define IMBREX_HAS_BF16_PAIRS 1

#include <immintrin.h>

IMBREX_ISA_BEGIN

struct bf16_pairs {
    using V = lanes<float>;
    static constexpr __mmask16 all16 = 0xffff;    // see seam_avx512.hpp
    static constexpr __mmask32 all32 = 0xffffffff;

    // sum + a.even b.even + a.odd b.odd.
    static IMBREX_ALWAYS_INLINE V dot(V a, V b, V sum) noexcept {
        return V(_mm512_dpbf16_ps(sum.data, __builtin_bit_cast(__m512bh, a.data), __builtin_bit_cast(__m512bh, b.data)));
    }

    // The pair at p in every lane; and the single number at p, beside a 0.
    static IMBREX_ALWAYS_INLINE V broadcast(bf16 const* p) noexcept {
        std::int32_t bits;
        __builtin_memcpy(&bits, p, sizeof bits);
        return V(_mm512_castsi512_ps(_mm512_set1_epi32(bits)));
    }
    static IMBREX_ALWAYS_INLINE V broadcast_single(bf16 const* p) noexcept {
        return V(_mm512_castsi512_ps(_mm512_set1_epi32(p->bits)));
    }

    // 16 pairs as they lie; the first n numbers of them, 0 beyond, and nothing beyond is read.
    static IMBREX_ALWAYS_INLINE V load(bf16 const* p) noexcept { return V(_mm512_castsi512_ps(_mm512_loadu_si512(p))); }
    static IMBREX_ALWAYS_INLINE V load_first(bf16 const* p, index n) noexcept {
        return n >= 32 ? load(p) : V(_mm512_castsi512_ps(_mm512_maskz_loadu_epi16((__mmask32{1} << n) - 1, p)));
    }

    // Lane i: (even[i], odd[i]), rounded to nearest.
    static IMBREX_ALWAYS_INLINE V rounded(V even, V odd) noexcept {
        __m512i const both = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(odd.data, even.data));
        return V(_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(all32, word_order(0, 16), both)));
    }

    // Stores 8 pairs of a number and the one Apart lanes after it (1, 2 or 4), in order, rounded to nearest. Returns the rounded.
    template <int Apart>
    static IMBREX_ALWAYS_INLINE V store_pairs(float* p, V x) noexcept {
        __m256i const each = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x.data));
        __m256i pairs = each;
        if constexpr (Apart == 2) pairs = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(each, 0xd8), 0xd8);
        if constexpr (Apart == 4) pairs = _mm256_unpacklo_epi16(each, _mm256_bsrli_epi128(each, 8));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), pairs);
        return V(_mm512_castsi512_ps(_mm512_maskz_slli_epi32(all16, _mm512_maskz_cvtepu16_epi32(all16, each), 16)));
    }

    // Rows of 32 numbers become pairs of the two: of the first 16 columns, of the others.
    static IMBREX_ALWAYS_INLINE void interleave(V& even, V& odd) noexcept {
        __m512i const a = _mm512_castps_si512(even.data), b = _mm512_castps_si512(odd.data);
        even = V(_mm512_castsi512_ps(_mm512_permutex2var_epi16(a, word_order(0, 32), b)));
        odd = V(_mm512_castsi512_ps(_mm512_permutex2var_epi16(a, word_order(16, 48), b)));
    }

    // The same, of columns 8 q .. 8 q + 3 to quad q of `even`, of 8 q + 4 .. to quad q of `odd`: free beside dot products, which
    // the above is not (5.4 against 4.3 ns for 8 of them among 16, AMD Zen 4, 2026-12-01).
    static IMBREX_ALWAYS_INLINE void interleave_quads(V& even, V& odd) noexcept {
        __m512i const a = _mm512_castps_si512(even.data), b = _mm512_castps_si512(odd.data);
        even = V(_mm512_castsi512_ps(_mm512_maskz_unpacklo_epi16(all32, a, b)));
        odd = V(_mm512_castsi512_ps(_mm512_maskz_unpackhi_epi16(all32, a, b)));
    }
    // From lane 4 q + i of vector c for column 4 (N q + c) + i to the order of columns.
    static IMBREX_ALWAYS_INLINE void order_quads(array_of<V, 2>& x) noexcept {
        __m512i const first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        __m512i const second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
        __m512 const a = x[0].data, b = x[1].data;
        x[0] = V(_mm512_permutex2var_ps(a, first, b)), x[1] = V(_mm512_permutex2var_ps(a, second, b));
    }
    static IMBREX_ALWAYS_INLINE void order_quads(array_of<V, 4>& x) noexcept {
        __m512i q[4];
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) q[i] = _mm512_castps_si512(x[i].data);
        transpose_quads(q);
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) x[i] = V(_mm512_castsi512_ps(q[i]));
    }

    // One number of each pair, and 0 for the other.
    enum class number : std::uint32_t { even = 0x0000ffff, odd = 0xffff0000 };
    static IMBREX_ALWAYS_INLINE V only(number which, V x) noexcept {
        return V(_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x.data), _mm512_set1_epi32(static_cast<int>(which)))));
    }

    // 2^x to 2.9e-6 of it, exactly 1 for 0 (minimax of degree 4; held by tests/units_wide_bf16_test.cpp): more than a weight of
    // bf16 needs, but the log-sum-exp is summed from weights before they are rounded. NaN stays.
    template <int N>
    static IMBREX_ALWAYS_INLINE void exp2(array_of<V, N>& x) noexcept {
        constexpr float c[] = {0.0559066361f, 0.240240985f, 0.69312417f, 1.0f};
        array_of<V, N> z, p;
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = seam<float>::at_least(V(-200.0f), x[i]);
        IMBREX_UNROLL for (int i = 0; i < N; ++i) z[i] =
            V(_mm512_maskz_roundscale_ps(all16, x[i].data, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = V(_mm512_sub_ps(x[i].data, z[i].data));
        IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = V(0.00958293675f);
        IMBREX_UNROLL for (int k = 0; k < 4; ++k) {
            IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = seam<float>::fma(p[i], x[i], V(c[k]));
        }
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = V(_mm512_maskz_scalef_ps(all16, p[i].data, z[i].data));
    }

private:
    // Words first, second, first + 1, second + 1, ...
    static IMBREX_ALWAYS_INLINE __m512i word_order(int first, int second) noexcept {
        __m512i const step = _mm512_setr_epi32(0x00000, 0x10001, 0x20002, 0x30003, 0x40004, 0x50005, 0x60006, 0x70007, 0x80008,
                                               0x90009, 0xa000a, 0xb000b, 0xc000c, 0xd000d, 0xe000e, 0xf000f);
        return _mm512_add_epi32(step, _mm512_set1_epi32(second << 16 | first));
    }
};

IMBREX_ISA_END

#endif
