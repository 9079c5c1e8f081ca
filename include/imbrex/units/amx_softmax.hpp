// The AMX unit's softmax: scores of a block in f32, queries in lanes, to weights in bf16, laid out as the tile unit reads them.
//
// A weight is 2^(c s - top) where top is a whole number near the row's largest c s: c s is split into the nearest whole number,
// whose difference to top is added to the exponent, and the rest, of which a polynomial of degree 3 is within 7.5e-5 (minimax).
// Weights below 2^-125 are 0. Numbers c s beyond 2^20 would lose their fraction: such scores are counted from a base of their
// row. Weights are rounded to bf16 by half an ulp added before they are cut: cut alone, a few nearly equal ones would be off by
// twice as much. The sum that outputs are divided by is that of the rounded ones.
// The log-sum-exp is of weights of degree 4, within 2.7e-6, before they are rounded. Held by tests/units_amx_test.cpp.
// Memory a block: scores once from L1, weights once to it.
#pragma once

#include "imbrex/units/amx_layout.hpp"
#include "imbrex/units/softmax_rows.hpp"

IMBREX_ISA_BEGIN

namespace amx_detail {

inline constexpr int vectors_of_half = 16 / W;
using half_vectors = array_of<V, vectors_of_half>;

// p 2^n, and the bits of `more` added, where n is in the low bits of `shifted`; 0 where s < low.
inline constexpr std::int32_t half_an_ulp = 0x8000;    // of bf16
#if defined(IMBREX_HAS_AVX512)
template <std::int32_t More = 0>
IMBREX_ALWAYS_INLINE V scaled_weight(V p, V shifted, V s, V low) noexcept {
    __mmask16 const seen = _mm512_cmp_ps_mask(s.data, low.data, _CMP_NLT_UQ);    // NaN is
    __m512i exponent = _mm512_maskz_slli_epi32(0xffff, _mm512_castps_si512(shifted.data), 23);
    if constexpr (More != 0) exponent = _mm512_maskz_or_epi32(0xffff, exponent, _mm512_set1_epi32(More));
    return V(_mm512_castsi512_ps(_mm512_maskz_add_epi32(seen, _mm512_castps_si512(p.data), exponent)));
}
#else
template <std::int32_t More = 0>
IMBREX_ALWAYS_INLINE V scaled_weight(V p, V shifted, V s, V low) noexcept {
    I const exponent = (reinterpret_lanes<std::int32_t>(shifted) << 23) + I(More);
    return xsimd::select(s < low, V(0.0f), reinterpret_lanes<float>(I(reinterpret_lanes<std::int32_t>(p) + exponent)));
}
#endif

// Which sums a row wants: the rounded weights, by which its outputs are divided, so that values of 1 give 1; and those before,
// for the log-sum-exp.
enum class row_sums { rounded, exact_too };

// What rows are weighed by: max_rows numbers each.
struct row_tops {
    float* base;     // scores are counted from here: 0 but for scores beyond `far`
    float* top;      // whole
    float* limit;    // a score above it raises the top

    static constexpr float far = 0x1p20f, slack = 8, magic = 12582912, deepest = 125;
};

struct weight_scale {
    float c, inverse;

    explicit weight_scale(float log2e) noexcept : c{log2e}, inverse{std::min(1 / log2e, std::numeric_limits<float>::max())} {}
};

// How a vector of rows is weighed.
struct row_weights {
    V c, shift, low;

    static IMBREX_ALWAYS_INLINE row_weights of(weight_scale const& scale, float const* top) noexcept {
        V const t = V::load_aligned(top);
        return {V(scale.c), V(row_tops::magic) - t,
                seam<float>::max(V(lowest_score<float>), (t - V(row_tops::deepest)) * V(scale.inverse))};
    }

    template <row_sums Sums>
    IMBREX_ALWAYS_INLINE V weight(V s, V& exact) const noexcept {
        using simd = seam<float>;
        V const shifted = opaque<float>(simd::fma(s, c, shift));
        V const f = simd::fma(s, c, shift - shifted);
        if constexpr (Sums == row_sums::exact_too) {
            V p = simd::fma(V(0.00957010191f), f, V(0.0559178603f));
            p = simd::fma(p, f, V(0.240247448f));
            p = simd::fma(p, f, V(0.693121815f));
            exact = exact + scaled_weight(simd::fma(p, f, V(0.999999261f)), shifted, s, low);
        }
        V p = simd::fma(V(0.0551716691f), f, V(0.242611122f));
        p = simd::fma(p, f, V(0.693260985f));
        return scaled_weight<half_an_ulp>(simd::fma(p, f, V(0.999928074f)), shifted, s, low);
    }
};

// The upper halves of a and b, side by side.
#if defined(IMBREX_HAS_AVX512)
IMBREX_ALWAYS_INLINE V pair_upper_halves(I a, I b) noexcept {
    __m512i const from_above = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return V(_mm512_castsi512_ps(_mm512_mask_permutexvar_epi16(b.data, 0x55555555, from_above, a.data)));
}
#else
IMBREX_ALWAYS_INLINE V pair_upper_halves(I a, I b) noexcept {
    return reinterpret_lanes<float>(I(upper_half_down(a) | (b & I(static_cast<std::int32_t>(0xffff0000u)))));
}
#endif

// Sums of the weights of 16 queries: the tile unit's own order, even keys and odd keys apart.
template <row_sums Sums>
struct weight_sums {
    half_vectors even, odd, exact;
    array_of<row_weights, vectors_of_half> rows;

    IMBREX_ALWAYS_INLINE weight_sums(weight_scale const& scale, float const* top) noexcept {
        for (int v = 0; v < vectors_of_half; ++v) {
            even[v] = odd[v] = exact[v] = V(0.0f);
            rows[v] = row_weights::of(scale, top + v * W);
        }
    }

    // Keys [key, key + 8) of the block: s to p, for the queries of a half. Lines of p_next are asked for: the next block's
    // weights then need not wait for them, as the tile unit does for the weights (5 %; D=128, S=2048, Intel Emerald Rapids, g++
    // 13, 2026-12-01).
    IMBREX_ALWAYS_INLINE void weigh(float const* s, bf16* p, bf16* p_next, int key) noexcept {
        I const upper(static_cast<std::int32_t>(0xffff0000u));
        IMBREX_UNROLL for (int j = 0; j < 8; j += 2) __builtin_prefetch(p_next + (key + j) / 2 * 32, 1, 3);
        IMBREX_UNROLL for (int v = 0; v < vectors_of_half; ++v) {
            IMBREX_UNROLL for (int j = 0; j < 8; j += 2) {
                float const* const at = s + (key + j) * amx_geometry::max_rows + v * W;
                V const first = rows[v].template weight<Sums>(V::load_aligned(at), exact[v]);
                V const second = rows[v].template weight<Sums>(V::load_aligned(at + amx_geometry::max_rows), exact[v]);
                I const a = reinterpret_lanes<std::int32_t>(first), b = reinterpret_lanes<std::int32_t>(second);
                even[v] = even[v] + reinterpret_lanes<float>(I(a & upper));
                odd[v] = odd[v] + reinterpret_lanes<float>(I(b & upper));
                store_pairs(p + (key + j) / 2 * 32 + v * W * 2, pair_upper_halves(a, b));
            }
        }
    }

    IMBREX_ALWAYS_INLINE void add_to(float* l, float* l_exact) const noexcept {
        for (int v = 0; v < vectors_of_half; ++v) {
            (V::load_aligned(l + v * W) + (even[v] + odd[v])).store_aligned(l + v * W);
            if constexpr (Sums == row_sums::exact_too)
                (V::load_aligned(l_exact + v * W) + exact[v]).store_aligned(l_exact + v * W);
        }
    }
};

// Scores of a block are held finite, keys [begin, end) of it.
IMBREX_NOINLINE inline void hold_finite(float* s, index begin, index end) noexcept {
    for (index i = begin * amx_geometry::max_rows; i < end * amx_geometry::max_rows; i += W)
        finite_score<float>(V::load_aligned(s + i)).store_aligned(s + i);
}

// Scores of keys [begin, end) of a block are hidden.
IMBREX_NOINLINE inline void hide(float* s, index begin, index end) noexcept {
    for (index i = begin * amx_geometry::max_rows; i < end * amx_geometry::max_rows; i += W)
        hidden_score<float>().store_aligned(s + i);
}

// Scores are counted from the base of their row.
IMBREX_NOINLINE inline void count_from(float const* base, float* s) noexcept {
    for (index i = 0; i < amx_geometry::block * amx_geometry::max_rows; i += W) {
        (V::load_aligned(s + i) - V::load_aligned(base + i % amx_geometry::max_rows)).store_aligned(s + i);
    }
}

// A NaN of a rule may have a payload that rounds to a number.
IMBREX_NOINLINE inline void quiet(float* s) noexcept {
    V const nan(std::numeric_limits<float>::quiet_NaN());
    for (index i = 0; i < amx_geometry::block * amx_geometry::max_rows; i += W) {
        V const x = V::load_aligned(s + i);
        V(xsimd::select(x == x, x, nan)).store_aligned(s + i);
    }
}

// The largest score of each row, to m_next; whether all of them are finite.
IMBREX_ALWAYS_INLINE bool find_maxima(float const* s, int halves, float* m_next) noexcept {
    bool finite = true;
    for (int at = 0; at < 16 * halves; at += W) {
        V a = V::load_aligned(s + at), b = V::load_aligned(s + amx_geometry::max_rows + at);
        IMBREX_UNROLL for (int j = 2; j < amx_geometry::block; j += 2) {
            a = seam<float>::max(a, V::load_aligned(s + j * amx_geometry::max_rows + at));
            b = seam<float>::max(b, V::load_aligned(s + (j + 1) * amx_geometry::max_rows + at));
        }
        V const m = seam<float>::max(a, b);
        m.store_aligned(m_next + at);
        finite = finite && !xsimd::any(xsimd::abs(m) > V(std::numeric_limits<float>::max()));
    }
    return finite;
}

}    // namespace amx_detail

IMBREX_ISA_END
