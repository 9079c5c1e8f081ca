// The AVX2 + FMA seam for f32: what xsimd 8.1 spells slowly or not at all. See portable.hpp for each contract.
#pragma once

#include <immintrin.h>

#include "imbrex/simd/bytes_avx2.hpp"

IMBREX_ISA_BEGIN

struct avx2_seam : avx2_bytes {
    static_assert(W == 8, "imbrex: xsimd chose other vectors than AVX2 has; is XSIMD_DEFAULT_ARCH set?");
    using avx2_bytes::load;
    using portable_seam<float>::store;

    static IMBREX_ALWAYS_INLINE V fma(V a, V b, V c) noexcept { return V(_mm256_fmadd_ps(a.data, b.data, c.data)); }
    // vmaxps returns its second operand when either is NaN.
    static IMBREX_ALWAYS_INLINE V at_least(V bound, V x) noexcept { return V(_mm256_max_ps(bound.data, x.data)); }
    static IMBREX_ALWAYS_INLINE V at_most(V bound, V x) noexcept { return V(_mm256_min_ps(bound.data, x.data)); }

    static IMBREX_ALWAYS_INLINE V load(bf16 const* p) noexcept {
        __m128i const bits = _mm_loadu_si128(reinterpret_cast<__m128i const*>(p));
        return V(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)));
    }
    static IMBREX_ALWAYS_INLINE void store(bf16* p, V x) noexcept {
        __m256i const u = _mm256_castps_si256(x.data);
        __m256i const even = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
        __m256i const rounded = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff))), 16);
        __m256i const quiet = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
        __m256i const is_nan = _mm256_castps_si256(_mm256_cmp_ps(x.data, x.data, _CMP_UNORD_Q));
        __m256i const r = _mm256_blendv_epi8(rounded, quiet, is_nan);
        __m128i const packed = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
    }
#ifdef __F16C__
    static IMBREX_ALWAYS_INLINE V load(f16 const* p) noexcept {
        return V(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p))));
    }
    static IMBREX_ALWAYS_INLINE void store(f16* p, V x) noexcept {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.data, _MM_FROUND_TO_NEAREST_INT));
    }
#endif

    using avx2_bytes::load_pair;
    // Even elements, then odd ones: a shift and a mask for 16 elements.
    static IMBREX_ALWAYS_INLINE void load_pair(bf16 const* p, V& low, V& high) noexcept {
        __m256i const bits = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(p));
        low = V(_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)));
        high = V(_mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u)))));
    }
    static IMBREX_ALWAYS_INLINE void load_pair(f16 const* p, V& low, V& high) noexcept { low = load(p), high = load(p + W); }
    template <class E>
    static constexpr int pair_lane(int i) noexcept {
        return std::is_same_v<E, bf16> ? i % 2 * W + i / 2 : i;
    }

    static IMBREX_ALWAYS_INLINE void transpose(V (&r)[8]) noexcept {
        __m256 t[8], u[8];
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) {
            t[2 * i] = _mm256_unpacklo_ps(r[2 * i].data, r[2 * i + 1].data);
            t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i].data, r[2 * i + 1].data);
        }
        IMBREX_UNROLL for (int i = 0; i < 2; ++i) {
            u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
            u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
            u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
            u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
        }
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) {
            r[i] = V(_mm256_permute2f128_ps(u[i], u[4 + i], 0x20));
            r[4 + i] = V(_mm256_permute2f128_ps(u[i], u[4 + i], 0x31));
        }
    }

    static IMBREX_ALWAYS_INLINE V sums(V (&r)[8]) noexcept {
        __m256 t[4];
        IMBREX_UNROLL for (int i = 0; i < 4; ++i) t[i] = _mm256_hadd_ps(r[2 * i].data, r[2 * i + 1].data);
        __m256 const low = _mm256_hadd_ps(t[0], t[1]);     // per 128-bit half: partial sums of r[0..3]
        __m256 const high = _mm256_hadd_ps(t[2], t[3]);    // and of r[4..7]
        return V(_mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)));
    }

    template <class E>
    static IMBREX_ALWAYS_INLINE V load_first(E const* p, int n) noexcept {
        if constexpr (std::is_same_v<E, float>) {
            return V(_mm256_maskload_ps(p, first(n)));
        } else {
            alignas(16) E buffer[8] = {};
            std::memcpy(buffer, p, static_cast<std::size_t>(n) * sizeof(E));
            return load(buffer);
        }
    }
    template <class E>
    static IMBREX_ALWAYS_INLINE void store_first(E* p, V x, int n) noexcept {
        if constexpr (std::is_same_v<E, float>) {
            _mm256_maskstore_ps(p, first(n), x.data);
        } else {
            alignas(16) E buffer[8];
            store(buffer, x);
            std::memcpy(p, buffer, static_cast<std::size_t>(n) * sizeof(E));
        }
    }

    template <int N>
    static IMBREX_ALWAYS_INLINE void exp2(array_of<V, N>& x) noexcept {
        constexpr float c[] = {0.00133999312f, 0.00961848896f, 0.0555032878f, 0.240226469f, 0.693147206f, 1.0f};
        __m256 const magic = _mm256_set1_ps(12582912.0f);
        array_of<V, N> z, p;
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = at_least(V(-127.0f), x[i]);
        IMBREX_UNROLL for (int i = 0; i < N; ++i) z[i] = opaque<float>(V(_mm256_add_ps(x[i].data, magic)));
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = V(_mm256_sub_ps(x[i].data, _mm256_sub_ps(z[i].data, magic)));
        IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = V(0.00015345812f);
        IMBREX_UNROLL for (int k = 0; k < 6; ++k) { IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = fma(p[i], x[i], V(c[k])); }
        IMBREX_UNROLL for (int i = 0; i < N; ++i) {
            __m256i const biased = _mm256_add_epi32(_mm256_castps_si256(z[i].data), _mm256_set1_epi32(127));
            x[i] = V(_mm256_mul_ps(p[i].data, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23))));
        }
    }

private:
    static IMBREX_ALWAYS_INLINE __m256i first(int n) noexcept {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
};

IMBREX_ISA_END
