// AVX-512 loads of one-byte elements, widened to f32 exactly: int8 (whole numbers, their scale not applied), f8_e4m3, f8_e5m2.
// Part of the seam (seam_avx512.hpp). For 32 elements, loads aside: int8 4 instructions, e5m2 6, e4m3 6 with VBMI, else 16.
#pragma once

#include <immintrin.h>

#include "imbrex/simd/portable.hpp"

IMBREX_ISA_BEGIN

#ifdef __AVX512VBMI__
// The bf16 patterns of the 128 values without sign, by their high and low bytes: what VPERMI2B looks up in two registers.
template <class F8>
struct bf16_bytes {
    alignas(64) std::uint8_t high[128] = {};
    alignas(64) std::uint8_t low[128] = {};

    constexpr bf16_bytes() noexcept {
        for (int i = 0; i < 128; ++i) {
            auto const bits = std::bit_cast<std::uint32_t>(to_float(F8::from_bits(static_cast<std::uint8_t>(i))));
            high[i] = static_cast<std::uint8_t>(bits >> 24);
            low[i] = static_cast<std::uint8_t>(bits >> 16);
        }
    }
};
template <class F8>
inline constexpr bf16_bytes<F8> bf16_of_f8{};

// Which element each byte of a register is made from.
struct byte_order {
    alignas(64) std::uint8_t in_words[64] = {};     // both bytes of word 2 i from element i, of word 2 i + 1 from element 16 + i
    alignas(64) std::uint8_t in_dwords[64] = {};    // the upper two bytes of dword i from element i

    constexpr byte_order() noexcept {
        for (int i = 0; i < 64; ++i) {
            in_words[i] = static_cast<std::uint8_t>(i / 4 + (i % 4 >= 2 ? 16 : 0));
            in_dwords[i] = static_cast<std::uint8_t>(i / 4);
        }
    }
};
inline constexpr byte_order e4m3_order{};
#endif

struct avx512_bytes : portable_seam<float> {
    static constexpr __mmask16 all16 = 0xffff;

    static IMBREX_ALWAYS_INLINE V load(std::int8_t const* p) noexcept { return widen_int8(load16(p)); }
    static IMBREX_ALWAYS_INLINE V load(f8_e4m3 const* p) noexcept { return widen_e4m3(load16(p)); }
    static IMBREX_ALWAYS_INLINE V load(f8_e5m2 const* p) noexcept { return widen_e5m2(load16(p)); }

    static IMBREX_ALWAYS_INLINE V load_first(std::int8_t const* p, int n) noexcept { return widen_int8(load16(p, n)); }
    static IMBREX_ALWAYS_INLINE V load_first(f8_e4m3 const* p, int n) noexcept { return widen_e4m3(load16(p, n)); }
    static IMBREX_ALWAYS_INLINE V load_first(f8_e5m2 const* p, int n) noexcept { return widen_e5m2(load16(p, n)); }

    template <byte_element E>
    static IMBREX_ALWAYS_INLINE void load_pair(E const* p, V& low, V& high) noexcept {
        low = load(p), high = load(p + W);
    }
#ifdef __AVX512VBMI__
    static IMBREX_ALWAYS_INLINE void load_pair(f8_e4m3 const* p, V& low, V& high) noexcept {
        __m512i const order = _mm512_load_si512(e4m3_order.in_words);
        __m512i const bytes = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, order, _mm512_castsi256_si512(load32(p)));
        __m512i const bits = bf16_of_e4m3(bytes);
        low = V(_mm512_castsi512_ps(_mm512_maskz_slli_epi32(all16, bits, 16)));
        high = V(_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u)))));
    }
#endif

private:
    static IMBREX_ALWAYS_INLINE __m128i load16(void const* p) noexcept { return _mm_loadu_si128(static_cast<__m128i const*>(p)); }
    static IMBREX_ALWAYS_INLINE __m128i load16(void const* p, int n) noexcept {
        return _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << n) - 1u), p);
    }
    static IMBREX_ALWAYS_INLINE __m256i load32(void const* p) noexcept {
        return _mm256_loadu_si256(static_cast<__m256i const*>(p));
    }
    static IMBREX_ALWAYS_INLINE V widen_int8(__m128i bytes) noexcept {
        return V(_mm512_maskz_cvtepi32_ps(all16, _mm512_maskz_cvtepi8_epi32(all16, bytes)));
    }
    static IMBREX_ALWAYS_INLINE V widen_e5m2(__m128i bytes) noexcept {
        return V(_mm512_maskz_cvtph_ps(all16, _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8)));
    }
#ifdef __AVX512VBMI__
    // Of words whose two bytes both hold an element: its bf16 pattern. Words of zeros stay zeros.
    static IMBREX_ALWAYS_INLINE __m512i bf16_of_e4m3(__m512i bytes) noexcept {
        auto const& t = bf16_of_f8<f8_e4m3>;
        // Hidden, since clang 14 makes two permutations of one whose mask it knows: 7.7 -> 10.1 numbers a ns, multiplied with
        // 4 rows of queries (AMD Zen 4, 2026-11-30).
        __mmask64 low_bytes = 0x5555555555555555;
        asm("" : "+Yk"(low_bytes));
        __m512i const low =
            _mm512_mask2_permutex2var_epi8(_mm512_load_si512(t.low), bytes, low_bytes, _mm512_load_si512(t.low + 64));
        __m512i const both =
            _mm512_mask2_permutex2var_epi8(_mm512_load_si512(t.high), low, ~low_bytes, _mm512_load_si512(t.high + 64));
        __m512i const sign = _mm512_set1_epi16(static_cast<short>(0x8000));
        return _mm512_ternarylogic_epi32(both, bytes, sign, 0xf8);    // both | (bytes & sign)
    }
    static IMBREX_ALWAYS_INLINE V widen_e4m3(__m128i packed) noexcept {
        __m512i const order = _mm512_load_si512(e4m3_order.in_dwords);
        __m512i const bytes = _mm512_maskz_permutexvar_epi8(0xcccccccccccccccc, order, _mm512_castsi128_si512(packed));
        return V(_mm512_castsi512_ps(bf16_of_e4m3(bytes)));
    }
#else
    // As f16, which is 2^8 too small, and denormal where e4m3 is: widening that costs nothing extra, unlike denormal f32.
    static IMBREX_ALWAYS_INLINE V widen_e4m3(__m128i packed) noexcept {
        __m256i const exponent = _mm256_set1_epi16(0x3f80);
        __m256i const shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(packed), 7);
        __m256i const bits = _mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<short>(0xbf80)));
        __mmask16 const nan = _mm256_cmpeq_epi16_mask(_mm256_and_si256(bits, exponent), exponent);
        __m256i const f16_bits = _mm256_mask_mov_epi16(bits, nan, _mm256_set1_epi16(0x7e00));
        return V(_mm512_maskz_cvtph_ps(all16, f16_bits)) * V(256.f);
    }
#endif
};

IMBREX_ISA_END
