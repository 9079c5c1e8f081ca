// Queries, keys and values put as the AMX unit multiplies them (amx_layout.hpp), and its outputs put back.
#pragma once

#include <algorithm>
#include <cstring>

#include "imbrex/rows.hpp"
#include "imbrex/units/amx_layout.hpp"
#include "imbrex/units/wide_layout.hpp"

IMBREX_ISA_BEGIN

namespace amx_detail {

using V = lanes<float>;
using I = lanes<std::int32_t>;
inline constexpr int W = lane_count<float>;

// The upper 16 bits of each, in the lower.
#if defined(IMBREX_HAS_AVX512)
IMBREX_ALWAYS_INLINE I upper_half_down(I x) noexcept { return I(_mm512_maskz_srli_epi32(0xffff, x.data, 16)); }
#else
IMBREX_ALWAYS_INLINE I upper_half_down(I x) noexcept { return (x >> 16) & I(0xffff); }
#endif

// W pairs of neighbours from p on, of which n numbers are there; the others are 0.
IMBREX_ALWAYS_INLINE V load_pairs(bf16 const* p, index n) noexcept {
    if (n >= 2 * W) return V::load_unaligned(reinterpret_cast<float const*>(p));
    alignas(64) array_of<bf16, 2 * W> some = {};
    if (n > 0) std::memcpy(some, p, static_cast<std::size_t>(n) * sizeof(bf16));
    return V::load_aligned(reinterpret_cast<float const*>(some));
}
IMBREX_ALWAYS_INLINE void store_pairs(bf16* p, V x) noexcept { x.store_aligned(reinterpret_cast<float*>(p)); }

// The first of n numbers, at most W.
template <class E>
IMBREX_ALWAYS_INLINE V load_numbers(E const* p, index n) noexcept {
    if (n <= 0) return V(0.0f);
    return n >= W ? seam<float>::load(p) : seam<float>::load_first(p, static_cast<int>(n));
}

// x without its lower half: of a number of f16, the first 8 digits.
IMBREX_ALWAYS_INLINE V upper_half(V x) noexcept {
    return reinterpret_lanes<float>(I(reinterpret_lanes<std::int32_t>(x) & I(static_cast<std::int32_t>(0xffff0000u))));
}

// The upper halves of 2 W neighbours.
IMBREX_ALWAYS_INLINE V upper_halves(V a, V b) noexcept {
#if defined(IMBREX_HAS_AVX512)
    alignas(64) static constexpr std::uint16_t odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                          33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return V(_mm512_castsi512_ps(
        _mm512_permutex2var_epi16(_mm512_castps_si512(a.data), _mm512_load_si512(odd), _mm512_castps_si512(b.data))));
#else
    alignas(64) array_of<std::uint32_t, 2 * W> whole;
    alignas(64) array_of<std::uint16_t, 2 * W> halves;
    a.store_aligned(reinterpret_cast<float*>(whole)), b.store_aligned(reinterpret_cast<float*>(whole) + W);
    for (int i = 0; i < 2 * W; ++i) halves[i] = static_cast<std::uint16_t>(whole[i] >> 16);
    return V::load_aligned(reinterpret_cast<float const*>(halves));
#endif
}

// W pairs of neighbours from p on, of which n numbers are there; the others are 0.
IMBREX_ALWAYS_INLINE void load_limbs(bf16 const* p, index n, array_of<V, 1>& limbs) noexcept { limbs[0] = load_pairs(p, n); }
IMBREX_ALWAYS_INLINE void load_limbs(f16 const* p, index n, array_of<V, 2>& limbs) noexcept {
    V const a = load_numbers(p, n), b = load_numbers(p + W, n - W);
    limbs[0] = upper_halves(a, b);
    limbs[1] = upper_halves(a - upper_half(a), b - upper_half(b));
}

// Numbers of one row and those of the next, as pairs.
IMBREX_ALWAYS_INLINE V pair_up(V low, V high) noexcept {
    return reinterpret_lanes<float>(
        I(upper_half_down(reinterpret_lanes<std::int32_t>(low)) | reinterpret_lanes<std::int32_t>(high)));
}
IMBREX_ALWAYS_INLINE void pair_limbs(V low, V high, array_of<V, 1>& limbs) noexcept { limbs[0] = pair_up(low, high); }
IMBREX_ALWAYS_INLINE void pair_limbs(V low, V high, array_of<V, 2>& limbs) noexcept {
    V const low_first = upper_half(low), high_first = upper_half(high);
    limbs[0] = pair_up(low_first, high_first);
    limbs[1] = pair_up(low - low_first, upper_half(high - high_first));    // of a NaN, whose payload would reach low
}

}    // namespace amx_detail

// The queries of a row tile as B: q[limb][half][d / 32][pair of d][query][2], times factor, which is -1, 0 or 1. Rows beyond the
// last repeat it: a rule may look at their scores.
template <class Q, class O>
IMBREX_NOINLINE void pack_amx_queries(row_block<Q, O> const& r, index head_dim, float factor, bf16* q) noexcept {
    using namespace amx_detail;
    constexpr int limbs = amx_limbs<Q>;
    index const steps = amx_geometry::padded(head_dim) / 32, all = amx_geometry::max_rows * 32 * steps;
    for (index at = 0; at < amx_geometry::max_rows; at += W) {
        array_of<Q const*, W> source;
        for (int i = 0; i < W; ++i) source[i] = r.query(std::min(at + i, r.count - 1));
        for (index pair = 0; pair < 16 * steps; pair += W) {
            array_of<array_of<V, W>, limbs> square;
            for (int i = 0; i < W; ++i) {
                array_of<V, limbs> row;
                load_limbs(source[i] + 2 * pair, head_dim - 2 * pair, row);
                for (int l = 0; l < limbs; ++l) square[l][i] = row[l];
            }
            for (int l = 0; l < limbs; ++l) {
                seam<float>::transpose(square[l]);
                for (int i = 0; i < W; ++i) {
                    index const row = pair + i, step = row / 16;
                    store_pairs(q + l * all + ((at / 16 * steps + step) * 16 + row % 16) * 32 + at % 16 * 2, square[l][i]);
                }
            }
        }
    }
    if (factor == 1.0f) return;
    for (index i = 0; i < limbs * all; ++i) q[i] = bf16{static_cast<float>(q[i]) * factor};
}

// Values of n <= block keys as A: to[d / 32][limb][d % 32][key]; keys beyond them are 0.
template <row_set Rows>
IMBREX_NOINLINE void pack_amx_values(Rows const& values, index n, index head_dim_v, bf16* to) noexcept {
    using namespace amx_detail;
    using E = typename Rows::element;
    constexpr int limbs = amx_limbs<E>;
    for (index pair = 0; pair < 16; pair += W) {
        array_of<E const*, 2 * W> source;
        for (int i = 0; i < 2 * W; ++i) source[i] = 2 * pair + i < n ? values.row(2 * pair + i) : nullptr;
        for (index d = 0; d < amx_geometry::padded(head_dim_v); d += W) {
            auto const numbers = [&](E const* row) { return row == nullptr ? V(0.0f) : load_numbers(row + d, head_dim_v - d); };
            array_of<array_of<V, W>, limbs> square;
            for (int i = 0; i < W; ++i) {
                array_of<V, limbs> pairs;
                pair_limbs(numbers(source[2 * i]), numbers(source[2 * i + 1]), pairs);
                for (int l = 0; l < limbs; ++l) square[l][i] = pairs[l];
            }
            for (int l = 0; l < limbs; ++l) {
                seam<float>::transpose(square[l]);
                bf16* const columns = to + ((d / 32 * limbs + l) * 32 + d % 32) * 32;
                for (int i = 0; i < W; ++i) store_pairs(columns + i * 32 + 2 * pair, square[l][i]);
            }
        }
    }
}

// Keys, n <= block of them, as A: to[step][limb][key][32 numbers]; keys beyond them, and numbers beyond head_dim, are 0.
template <row_set Rows>
IMBREX_NOINLINE void pack_amx_keys(Rows const& keys, index n, index head_dim, bf16* to) noexcept {
    using namespace amx_detail;
    constexpr index step = amx_geometry::step, square = amx_geometry::block * step;
    constexpr int limbs = amx_limbs<typename Rows::element>;
    for (index j = 0; j < n; ++j) {
        auto const* const row = keys.row(j);
        bf16* line = to + j * step;
        for (index d = 0; d < amx_geometry::padded(head_dim); d += step, line += limbs * square) {
            for (index i = 0; i < step; i += 2 * W) {
                array_of<V, limbs> pairs;
                load_limbs(row + d + i, head_dim - d - i, pairs);
                for (int l = 0; l < limbs; ++l) store_pairs(line + l * square + i, pairs[l]);
            }
        }
    }
    for (index d = 0; d < limbs * amx_geometry::padded(head_dim) && n < amx_geometry::block; d += step) {
        bf16* const square_of = to + d / step * square;
        std::fill(square_of + n * step, square_of + square, bf16::from_bits(0));
    }
}

// Output row [d] = o[d][row] inverse[row].
template <class Q, class O>
void unpack_amx_outputs(row_block<Q, O> const& r, index head_dim_v, float const* o, float const* inverse) noexcept {
    for (index at = 0; at < r.count; at += lane_count<float>)
        unpack_outputs<float, amx_geometry::max_rows>(r, at, head_dim_v, o, inverse);
}

#if defined(IMBREX_HAS_AVX512) && defined(__AVX512BF16__)
// To bf16 in pairs, which halves the transposing; denormals become 0, as everywhere in this unit. o: padded(head_dim_v) rows.
IMBREX_NOINLINE inline void unpack_amx_outputs(row_block<bf16, bf16> const& r, index head_dim_v, float const* o,
                                               float const* inverse) noexcept {
    using namespace amx_detail;
    constexpr index max_rows = amx_geometry::max_rows;
    __m512i const low = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i const high = _mm512_add_epi32(low, _mm512_set1_epi32(16));
    __m512i const side_by_side = _mm512_or_si512(low, _mm512_maskz_slli_epi32(0xffff, high, 16));
    for (index at = 0; at < r.count; at += 16) {
        index const live = std::min<index>(16, r.count - at);
        V const factor = V::load_aligned(inverse + at);
        for (index d = 0; d < head_dim_v; d += 32) {
            array_of<V, 16> square;
            for (int i = 0; i < 16; ++i) {
                V const even = V::load_aligned(o + (d + 2 * i) * max_rows + at) * factor;
                V const odd = V::load_aligned(o + (d + 2 * i + 1) * max_rows + at) * factor;
                __m512i const halves = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(odd.data, even.data));
                square[i] = V(_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xffffffffu, side_by_side, halves)));
            }
            seam<float>::transpose(square);
            index const n = std::min<index>(32, head_dim_v - d);
            __mmask32 const first = static_cast<__mmask32>((std::uint64_t{1} << n) - 1);
            for (int i = 0; i < live; ++i)
                _mm512_mask_storeu_epi16(r.output(at + i) + d, first, _mm512_castps_si512(square[i].data));
        }
    }
}
#endif

IMBREX_ISA_END
