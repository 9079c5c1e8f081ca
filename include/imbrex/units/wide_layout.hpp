// How the wide unit keeps a tile of queries: transposed, one query per lane.
#pragma once

#include <algorithm>

#include "imbrex/tile.hpp"
#include "imbrex/units/unit.hpp"
#include "imbrex/workspace.hpp"

IMBREX_ISA_BEGIN

template <class T>
struct wide_geometry {
    static constexpr int W = lane_count<T>;
    static constexpr int max_vectors = accumulator_registers / 4;
    static constexpr index max_rows = index{max_vectors} * W;
    static constexpr index segment = std::max(W, 16);    // keys per step when a tile is partly masked
    static constexpr index max_runs = max_kv_cols / segment + 1;

    // Keys (or columns of V) that one block takes beside N vectors of queries: the largest power of two that fits.
    static constexpr int block(int n) noexcept {
        int k = 1;
        while (2 * k * n <= accumulator_registers) k *= 2;
        return k;
    }
};

template <class T>
struct wide_scratch {
    T* q;    // head_dim x max_rows
    T* o;    // head_dim_v x max_rows
    T* s;    // kv_cols x max_rows, scores, then weights
    T* m;    // max_rows, running maxima; l, alpha likewise
    T* m_next;
    T* l;
    T* alpha;                  // by how much o must shrink
    lane_int<T>* positions;    // max_rows; heads likewise: the query and its head, of each row
    lane_int<T>* heads;

    // The one function that sizes and lays out the scratch; over a null arena it only counts.
    static wide_scratch lay_out(arena& memory, index head_dim, index head_dim_v, index kv_cols) noexcept {
        constexpr index rows = wide_geometry<T>::max_rows;
        wide_scratch s;
        s.q = memory.take<T>(head_dim * rows);
        s.o = memory.take<T>(head_dim_v * rows);
        s.s = memory.take<T>(kv_cols * rows);
        s.m = memory.take<T>(rows);
        s.m_next = memory.take<T>(rows);
        s.l = memory.take<T>(rows);
        s.alpha = memory.take<T>(rows);
        s.positions = memory.take<lane_int<T>>(rows);
        s.heads = memory.take<lane_int<T>>(rows);
        return s;
    }
};

// What becomes of o before weights times values are added to it: it counts as 0, or shrinks by alpha, a factor for each row of
// the tile, or stays as it is (null).
template <class T>
struct sum_before {
    bool zero = false;
    T const* alpha = nullptr;

    // Decision: factors of 1 instead of code without them, which would be twice as much to compile.
    IMBREX_ALWAYS_INLINE lanes<T> factor(index row) const noexcept {
        return alpha == nullptr ? lanes<T>(T(1)) : lanes<T>::load_aligned(alpha + row);
    }
};

// What is left over after blocks of n is taken in blocks of so many. (All powers of two would compile in twice the time.)
constexpr int rest_of_block(int n) noexcept { return n > 4 ? n / 4 : 1; }

// The queries of lanes [first, first + W) of the tile: q[d][lane] = scale * query row [d]; lanes without a row repeat the
// last: a rule may look at their scores.
template <class T, class Q, class O>
IMBREX_NOINLINE void pack_queries(row_block<Q, O> const& r, index first, index head_dim, T scale, T* q) noexcept {
    using V = lanes<T>;
    using simd = seam<T>;
    constexpr int W = lane_count<T>;
    constexpr index max_rows = wide_geometry<T>::max_rows;
    array_of<Q const*, W> source;
    int const live = static_cast<int>(std::min<index>(W, r.count - first));
    for (int i = 0; i < W; ++i) source[i] = r.query(first + std::min(i, live - 1));
    for (index d = 0; d < head_dim; d += W) {
        int const n = static_cast<int>(std::min<index>(W, head_dim - d));
        array_of<V, W> block;
        for (int i = 0; i < W; ++i) {
            block[i] = (n == W ? simd::load(source[i] + d) : simd::load_first(source[i] + d, n)) * V(scale);
        }
        simd::transpose(block);
        for (int i = 0; i < n; ++i) block[i].store_aligned(q + (d + i) * max_rows + first);
    }
}

// The outputs of those lanes: output row [d] = o[d][lane] inverse[lane]. RowStride: of o, from d to d.
template <class T, index RowStride = wide_geometry<T>::max_rows, class Q, class O>
IMBREX_NOINLINE void unpack_outputs(row_block<Q, O> const& r, index first, index head_dim_v, T const* o,
                                    T const* inverse_rows) noexcept {
    using V = lanes<T>;
    using simd = seam<T>;
    constexpr int W = lane_count<T>;
    constexpr index max_rows = RowStride;
    int const live = static_cast<int>(std::min<index>(W, r.count - first));
    V const inverse = V::load_aligned(inverse_rows + first);
    array_of<O*, W> target;
    for (int i = 0; i < live; ++i) target[i] = r.output(first + i);
    for (index d = 0; d < head_dim_v; d += W) {
        int const n = static_cast<int>(std::min<index>(W, head_dim_v - d));
        array_of<V, W> block;
        for (int i = 0; i < W; ++i) {
            block[i] = i < n ? V::load_aligned(o + (d + i) * max_rows + first) * inverse : V(T(0));
        }
        simd::transpose(block);
        for (int i = 0; i < live; ++i) {
            if (n == W) {
                simd::store(target[i] + d, block[i]);
            } else {
                simd::store_first(target[i] + d, block[i], n);
            }
        }
    }
}

IMBREX_ISA_END
