// How the units that multiply bf16 in pairs keep queries, values and weights. A pair is carried in the memory of an f32.
#pragma once

#include <algorithm>

#include "imbrex/rows.hpp"
#include "imbrex/simd/pairs_avx512.hpp"
#include "imbrex/units/wide_layout.hpp"

IMBREX_ISA_BEGIN

// Values of keys in pairs: word [panel][pair of keys][column of the panel] is (value of the even key, of the odd one). Panels of
// 16 columns: a block of columns then reads one stretch of memory, where in rows it would take a line of each, all in a few sets
// of L1. Columns are padded with zeros to whole panels, and an odd last key with a 0.
struct value_panels {
    static constexpr index columns = 16;

    float const* data = nullptr;
    index panel_stride = 0;    // words

    float const* at(index pair, index column) const noexcept {
        return data + column / columns * panel_stride + pair * columns + column % columns;
    }
    value_panels from(index pair) const noexcept { return {data + pair * columns, panel_stride}; }

    static constexpr index panels(index head_dim_v) noexcept { return (head_dim_v + columns - 1) / columns; }
    // A line more than the pairs take, so that the panels of a power of two do not share the sets of L1.
    static constexpr index stride_of(index keys) noexcept { return ((keys + 1) / 2 + 1) * columns; }
    static constexpr index words(index keys, index head_dim_v) noexcept { return stride_of(keys) * panels(head_dim_v); }
};

// Keys as they lie, and values in pairs from the tile's first key on.
struct pair_tile {
    rows<bf16> keys;
    value_panels values;
};

struct pair_scratch : wide_scratch<float> {
    float* l_exact;     // max_rows: the sums of weights before they were rounded
    float* one_pair;    // panels of one pair

    // The one function that sizes and lays out the scratch; over a null arena it only counts. q: pairs of head_dim x max_rows; of
    // s, weights in pairs take the first half.
    static pair_scratch lay_out(arena& memory, index head_dim, index head_dim_v, index kv_cols) noexcept {
        pair_scratch s;
        static_cast<wide_scratch<float>&>(s) = wide_scratch<float>::lay_out(memory, (head_dim + 1) / 2, head_dim_v, kv_cols);
        s.l_exact = memory.take<float>(wide_geometry<float>::max_rows);
        s.one_pair = memory.take<float>(value_panels::columns * value_panels::panels(head_dim_v));
        return s;
    }
};

IMBREX_ISA_END

#if defined(IMBREX_HAS_BF16_PAIRS)

IMBREX_ISA_BEGIN

// Values of rows [0, count) in pairs, from pair 0 on. Prefetches a few rows ahead, since rows that lie far apart are beyond the
// hardware's prefetchers.
template <row_set Rows>
IMBREX_NOINLINE void interleave_values(Rows from, index count, index head_dim_v, float* to, index panel_stride) noexcept {
    using V = lanes<float>;
    constexpr index rows_ahead = 8, at_once = 2 * value_panels::columns;
    for (index j = 0; j < count; j += 2, to += value_panels::columns) {
        bool const both = j + 1 < count;
        bf16 const* const even = from.row(j);
        bf16 const* const odd = from.row(both ? j + 1 : j);
        index const ahead = std::min(j + rows_ahead, count - 1);
        bf16 const* const even_ahead = from.row(ahead);
        bf16 const* const odd_ahead = from.row(std::min(ahead + 1, count - 1));
        float* panel = to;
        for (index d = 0; d < head_dim_v; d += at_once, panel += 2 * panel_stride) {
            prefetch(even_ahead + d);
            prefetch(odd_ahead + d);
            V a = bf16_pairs::load_first(even + d, head_dim_v - d);
            V b = both ? bf16_pairs::load_first(odd + d, head_dim_v - d) : V(0.0f);
            bf16_pairs::interleave(a, b);
            a.store_aligned(panel);
            if (d + value_panels::columns < head_dim_v) b.store_aligned(panel + panel_stride);
        }
    }
}

// The queries of lanes [first, first + 16): q[pair of d][lane] = scale * (query [d], query [d + 1]), a 0 beyond head_dim; scale
// is 1, -1 or 0. Lanes without a row repeat the last: a rule may look at their scores.
template <class O>
IMBREX_NOINLINE void pack_query_pairs(row_block<bf16, O> const& r, index first, index head_dim, float scale, float* q) noexcept {
    using V = lanes<float>;
    constexpr int W = lane_count<float>;
    constexpr index max_rows = wide_geometry<float>::max_rows;
    array_of<bf16 const*, W> source;
    int const live = static_cast<int>(std::min<index>(W, r.count - first));
    for (int i = 0; i < W; ++i) source[i] = r.query(first + std::min(i, live - 1));
    for (index d = 0; d < head_dim; d += 2 * W) {
        index const n = std::min<index>(2 * W, head_dim - d);
        array_of<V, W> block;
        for (int i = 0; i < W; ++i) {
            if (scale == 1.0f) {
                block[i] = bf16_pairs::load_first(source[i] + d, n);
            } else {
                array_of<bf16, 2 * W> scaled = {};
                for (index k = 0; k < n; ++k) scaled[k] = bf16(scale * to_float(source[i][d + k]));
                block[i] = bf16_pairs::load(scaled);
            }
        }
        seam<float>::transpose(block);
        for (index i = 0; 2 * i < n; ++i) block[i].store_aligned(q + (d / 2 + i) * max_rows + first);
    }
}

// Where sums of weights go: l becomes alpha l + sum, without alpha l + sum, of the rounded weights and of those before.
struct pair_sums {
    float const* alpha;
    float* rounded;
    float* exact;
};

// s: `keys` rows of N vectors, max_rows apart, scores; p: likewise, pairs of weights 2^(log2e (s - m)), rounded to bf16, of which
// the one beyond an odd number of keys is 0. p may be s or before it: a pair is written after its scores were read. The rounded
// sum is taken as o is, of products with 1.
template <int N>
IMBREX_NOINLINE void weigh_pairs(float const* s, index keys, float log2e, float const* m_rows, float* p,
                                 pair_sums const& l) noexcept {
    using V = lanes<float>;
    constexpr int W = lane_count<float>;
    constexpr index max_rows = wide_geometry<float>::max_rows;
    constexpr int together = N == 1 ? 2 : 1;    // pairs in lockstep, so that short rows hide the latency too
    array_of<V, N> m, sum, exact;
    IMBREX_UNROLL for (int q = 0; q < N; ++q) {
        m[q] = V::load_aligned(m_rows + q * W);
        sum[q] = exact[q] = V(0.0f);
    }
    V const ones(__builtin_bit_cast(float, 0x3f803f80));
    auto const weigh = [&]<int Keys>(std::integral_constant<int, Keys>) {
        IMBREX_UNROLL for (int q = 0; q < N; ++q) {
            array_of<V, Keys> x;
            IMBREX_UNROLL for (int k = 0; k < Keys; ++k) { x[k] = (V::load_aligned(s + k * max_rows + q * W) - m[q]) * V(log2e); }
            bf16_pairs::exp2<Keys>(x);
            IMBREX_UNROLL for (int k = 0; k < Keys; k += 2) {
                V const even = x[k], odd = Keys > 1 ? x[(k + 1) % Keys] : V(0.0f);
                V const pair = bf16_pairs::rounded(even, odd);
                exact[q] = exact[q] + (even + odd);
                sum[q] = bf16_pairs::dot(pair, ones, sum[q]);
                pair.store_aligned(p + k / 2 * max_rows + q * W);
            }
        }
        s += Keys * max_rows;
        p += (Keys + 1) / 2 * max_rows;
    };
    index j = 0;
    for (; j + 2 * together <= keys; j += 2 * together) weigh(std::integral_constant<int, 2 * together>{});
    for (; j + 2 <= keys; j += 2) weigh(std::integral_constant<int, 2>{});
    if (j < keys) weigh(std::integral_constant<int, 1>{});
    IMBREX_UNROLL for (int q = 0; q < N; ++q) {
        V const shrink = l.alpha != nullptr ? V::load_aligned(l.alpha + q * W) : V(1.0f);
        seam<float>::fma(V::load_aligned(l.rounded + q * W), shrink, sum[q]).store_aligned(l.rounded + q * W);
        seam<float>::fma(V::load_aligned(l.exact + q * W), shrink, exact[q]).store_aligned(l.exact + q * W);
    }
}

IMBREX_ISA_END

#endif
