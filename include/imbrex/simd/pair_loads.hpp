// Rows of bf16, and of eight-bit floats, as vectors of pairs of bf16 (pairs_avx512.hpp): exact.
//
//   vectors                  that some columns take: 32 for each
//   load(p, x)               x[v] word w: the number at p + column_of(v, w)
//   load_first(p, n, x)      likewise of the first n > 0 numbers, 0 beyond; nothing beyond is read
#pragma once

#include "imbrex/dtype_f8.hpp"
#include "imbrex/simd/pairs_avx512.hpp"
#include "imbrex/simd/quads_avx512.hpp"

#if defined(IMBREX_HAS_BF16_PAIRS)
#include "imbrex/simd/bytes_avx512.hpp"
#endif

IMBREX_ISA_BEGIN

template <class E>
struct pair_loads {
    static constexpr int vectors = 0;    // there are none
};

#if defined(IMBREX_HAS_BF16_PAIRS)

template <>
struct pair_loads<bf16> {
    using V = lanes<float>;
    static constexpr int vectors = 1;

    static constexpr int column_of(int, int word) noexcept { return word; }
    static IMBREX_ALWAYS_INLINE void load(bf16 const* p, array_of<V, 1>& x) noexcept { x[0] = bf16_pairs::load(p); }
    static IMBREX_ALWAYS_INLINE void load_first(bf16 const* p, index n, array_of<V, 1>& x) noexcept {
        x[0] = bf16_pairs::load_first(p, n);
    }
};

#ifdef __AVX512VBMI__

// Two table look-ups for 64 numbers; the table's bytes are put together where they are, quad by quad.
template <class E>
    requires(std::same_as<E, f8_e4m3> || std::same_as<E, f8_e5m2>)
struct pair_loads<E> {
    using V = lanes<float>;
    static constexpr int vectors = 2;

    static constexpr int column_of(int vector, int word) noexcept { return word / 8 * 16 + vector * 8 + word % 8; }
    static IMBREX_ALWAYS_INLINE void load(E const* p, array_of<V, 2>& x) noexcept { look_up(_mm512_loadu_si512(p), x); }
    static IMBREX_ALWAYS_INLINE void load_first(E const* p, index n, array_of<V, 2>& x) noexcept {
        auto const some = n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
        look_up(_mm512_maskz_loadu_epi8(some, p), x);
    }

private:
    static IMBREX_ALWAYS_INLINE void look_up(__m512i codes, array_of<V, 2>& x) noexcept {
        auto const& t = bf16_of_f8<E>;
        __m512i const low = _mm512_permutex2var_epi8(_mm512_load_si512(t.low), codes, _mm512_load_si512(t.low + 64));
        __m512i const size = _mm512_permutex2var_epi8(_mm512_load_si512(t.high), codes, _mm512_load_si512(t.high + 64));
        __m512i const sign = _mm512_set1_epi8(static_cast<char>(0x80));
        __m512i const high = _mm512_ternarylogic_epi32(size, codes, sign, 0xf8);    // size | (codes & sign)
        constexpr auto all = ~__mmask64{0};
        x[0] = V(_mm512_castsi512_ps(_mm512_maskz_unpacklo_epi8(all, low, high)));
        x[1] = V(_mm512_castsi512_ps(_mm512_maskz_unpackhi_epi8(all, low, high)));
    }
};

#endif

#endif

// Whether a row can be multiplied in pairs.
template <class E>
inline constexpr bool loads_in_pairs = pair_loads<E>::vectors > 0;

IMBREX_ISA_END
