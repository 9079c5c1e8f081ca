// The AMX unit's softmax: scores of a block in f32, queries in lanes, to weights in bf16, laid out as the tile unit reads them.
//
// A weight is 2^x, x = c s - top, where top is a whole number near the row's largest c s: p(x - floor x) 2^(floor x), where the
// polynomial of degree 3 is within 7.5e-5 of it (minimax). Weights below 2^-126 are 0. Numbers c s beyond 2^20 would lose their
// fraction: such scores are counted from a base of their row. Weights are rounded to bf16 by being cut, half an ulp higher: cut
// alone, a few nearly equal ones would be off by twice as much. The sum that outputs are divided by is that of the rounded ones.
// Weights of two limbs are of degree 5, within 7.5e-8, rounded to the two; one sum of them, before they are, serves all.
// The log-sum-exp is of weights of degree 4, within 2.7e-6, before they are rounded. Held by tests/units_amx_test.cpp.
// Memory a block: scores once from L1, weights once to it.
#pragma once

#include "imbrex/units/amx_packing.hpp"
#include "imbrex/units/softmax_rows.hpp"

IMBREX_ISA_BEGIN

namespace amx_detail {

inline constexpr int vectors_of_half = 16 / W;
using half_vectors = array_of<V, vectors_of_half>;

// x - floor(x), and p 2^floor(x), 0 where x < -126; p is in [1, 2].
// Decision: vreduceps and vscalefps, which take half a cycle each, rather than the whole number from a magic one and added to the
// exponent, which with the zeros takes six operations: 13 to 15 % of all (D=128, S=1024 to 4096, Intel Emerald Rapids, g++ 13,
// 2026-12-01). But where it makes a denormal, vscalefps takes 180 cycles, unless those are flushed.
#if defined(IMBREX_HAS_AVX512)
IMBREX_ALWAYS_INLINE V fraction_of(V x) noexcept {
    return V(_mm512_maskz_reduce_ps(0xffff, x.data, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
}
IMBREX_ALWAYS_INLINE V scaled_weight(V p, V x) noexcept { return V(_mm512_maskz_scalef_ps(0xffff, p.data, x.data)); }

// Denormal results are 0 while it lives.
class denormals_flushed {
public:
    denormals_flushed() noexcept : before_{_mm_getcsr()} { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON); }
    ~denormals_flushed() { _mm_setcsr(before_); }
    denormals_flushed(denormals_flushed const&) = delete;
    denormals_flushed& operator=(denormals_flushed const&) = delete;

private:
    unsigned before_;
};
#else
IMBREX_ALWAYS_INLINE V fraction_of(V x) noexcept { return x - xsimd::floor(x); }
IMBREX_ALWAYS_INLINE V scaled_weight(V p, V x) noexcept {
    V const whole = xsimd::floor(x) + V(12582912.0f);    // in the low bits
    I const scaled = reinterpret_lanes<std::int32_t>(p) + (reinterpret_lanes<std::int32_t>(whole) << 23);
    return xsimd::select(x < V(-126.0f), V(0.0f), reinterpret_lanes<float>(scaled));
}

struct denormals_flushed {
    denormals_flushed() noexcept {}    // so that a scope of it is used
};
#endif

// Which sums a row wants: the rounded weights, by which its outputs are divided, so that values of 1 give 1; and those before,
// for the log-sum-exp.
enum class row_sums { rounded, exact_too };

// What rows are weighed by: max_rows numbers each.
struct row_tops {
    float* base;     // scores are counted from here: 0 but for scores beyond `far`
    float* top;      // whole
    float* limit;    // a score above it raises the top

    static constexpr float far = 0x1p20f, slack = 8;
};

struct weight_scale {
    float c, inverse;

    explicit weight_scale(float log2e) noexcept : c{log2e}, inverse{std::min(1 / log2e, std::numeric_limits<float>::max())} {}
};

// How a vector of rows is weighed.
struct row_weights {
    V c, below;    // x = c s + below

    static IMBREX_ALWAYS_INLINE row_weights of(weight_scale const& scale, float const* top) noexcept {
        return {V(scale.c), V(0.0f) - V::load_aligned(top)};
    }

    // 2^x, half an ulp of bf16 higher; and as it is to `exact`.
    template <row_sums Sums>
    IMBREX_ALWAYS_INLINE V weight(V s, V& exact) const noexcept {
        using simd = seam<float>;
        constexpr float half_an_ulp = 0x1p-8f;    // of numbers in [1, 2)
        V const x = simd::fma(s, c, below), f = fraction_of(x);
        if constexpr (Sums == row_sums::exact_too) {
            V p = simd::fma(V(0.0135341678f), f, V(0.0520114601f));
            p = simd::fma(p, f, V(0.241442755f));
            p = simd::fma(p, f, V(0.693003833f));
            exact = exact + scaled_weight(simd::fma(p, f, V(1.00000262f)), x);
        }
        V p = simd::fma(V(0.0780245215f), f, V(0.226067156f));
        p = simd::fma(p, f, V(0.695833564f));
        return scaled_weight(simd::fma(p, f, V(0.999925196f + half_an_ulp)), x);
    }

    // 2^x, to an ulp or two of f32.
    IMBREX_ALWAYS_INLINE V fine_weight(V s) const noexcept {
        using simd = seam<float>;
        V const x = simd::fma(s, c, below), f = fraction_of(x);
        V p = simd::fma(V(0.00187757669f), f, V(0.00898933969f));
        p = simd::fma(p, f, V(0.0558263175f));
        p = simd::fma(p, f, V(0.240153611f));
        p = simd::fma(p, f, V(0.693153083f));
        return scaled_weight(simd::fma(p, f, V(0.99999994f)), x);
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

// Bits whose upper half is x rounded to bf16; and likewise of what is left of x.
IMBREX_ALWAYS_INLINE I rounded_limb(V x) noexcept { return reinterpret_lanes<std::int32_t>(x) + I(0x8000); }
IMBREX_ALWAYS_INLINE I second_limb(V x, I first) noexcept {
    return rounded_limb(x - upper_half(reinterpret_lanes<float>(first)));
}

// Sums of the weights of 16 queries: the tile unit's own order, even keys and odd keys apart.
template <row_sums Sums, int Limbs>
struct weight_sums {
    half_vectors even, odd, exact;
    array_of<row_weights, vectors_of_half> rows;

    IMBREX_ALWAYS_INLINE weight_sums(weight_scale const& scale, float const* top) noexcept {
        for (int v = 0; v < vectors_of_half; ++v) {
            even[v] = odd[v] = exact[v] = V(0.0f);
            rows[v] = row_weights::of(scale, top + v * W);
        }
    }

    // Keys [key, key + 8) of the block: s to p, for the queries of a half.
    IMBREX_ALWAYS_INLINE void weigh(float const* s, bf16* p, int key) noexcept {
        if constexpr (Limbs == 2) return weigh_limbs(s, p, key);
        I const upper(static_cast<std::int32_t>(0xffff0000u));
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

    IMBREX_ALWAYS_INLINE void weigh_limbs(float const* s, bf16* p, int key) noexcept {
        IMBREX_UNROLL for (int v = 0; v < vectors_of_half; ++v) {
            IMBREX_UNROLL for (int j = 0; j < 8; j += 2) {
                float const* const at = s + (key + j) * amx_geometry::max_rows + v * W;
                V const a = rows[v].fine_weight(V::load_aligned(at));
                V const b = rows[v].fine_weight(V::load_aligned(at + amx_geometry::max_rows));
                even[v] = even[v] + a;
                odd[v] = odd[v] + b;
                I const first_a = rounded_limb(a), first_b = rounded_limb(b);
                bf16* const to = p + (key + j) / 2 * 32 + v * W * 2;
                store_pairs(to, pair_upper_halves(first_a, first_b));
                store_pairs(to + 2 * amx_geometry::tile, pair_upper_halves(second_limb(a, first_a), second_limb(b, first_b)));
            }
        }
    }

    IMBREX_ALWAYS_INLINE void add_to(float* l, float* l_exact) const noexcept {
        for (int v = 0; v < vectors_of_half; ++v) {
            (V::load_aligned(l + v * W) + (even[v] + odd[v])).store_aligned(l + v * W);
            if constexpr (Sums == row_sums::exact_too) {
                V const sum = Limbs == 2 ? even[v] + odd[v] : exact[v];
                (V::load_aligned(l_exact + v * W) + sum).store_aligned(l_exact + v * W);
            }
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
