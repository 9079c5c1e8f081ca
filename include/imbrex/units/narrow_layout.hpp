// How the narrow unit keeps queries, outputs and scores: rows along head_dim, in the order that pairs of vectors of K and V are
// read in (load_row_pair).
#pragma once

#include <algorithm>

#include "imbrex/simd/encoded.hpp"
#include "imbrex/units/unit.hpp"
#include "imbrex/workspace.hpp"

IMBREX_ISA_BEGIN

template <class T>
struct narrow_scratch {
    static constexpr index W = lane_count<T>;

    T* q;    // rows x head_dim, padded_to_four, in the order that K is read in
    T* o;    // rows x head_dim_v, likewise, in the order that V is read in; o_tile likewise
    T* s;    // row pairs x (kv_cols x 2), [key][row of the pair]: scores, then weights
    T* m;    // row pairs x W: the pair's maxima alternate, as their scores do; m_next, positions, heads likewise
    T* m_next;
    lane_int<T>* positions;
    lane_int<T>* heads;
    T* l;         // rows
    T* alpha;     // rows; by how much l and o must shrink
    T* o_tile;    // o and l of one tile of keys
    T* l_tile;
    T* l_exact;     // rows; l before weights were rounded
    T* no_value;    // zeros

    static constexpr index no_value_words = 64;

    static constexpr index padded(index n) noexcept { return (n + W - 1) / W * W; }
    static constexpr index padded_to_four(index n) noexcept { return (n + 4 * W - 1) / (4 * W) * (4 * W); }

    // The one function that sizes and lays out the scratch; over a null arena it only counts.
    static narrow_scratch lay_out(arena& memory, index rows, index head_dim, index head_dim_v, index kv_cols) noexcept {
        narrow_scratch x;
        x.q = memory.take<T>(rows * padded_to_four(head_dim));
        x.o = memory.take<T>(rows * padded_to_four(head_dim_v));
        x.s = memory.take<T>(rows * (kv_cols + W));
        x.m = memory.take<T>(rows * W);
        x.m_next = memory.take<T>(rows * W);
        x.positions = memory.take<lane_int<T>>(rows * W);
        x.heads = memory.take<lane_int<T>>(rows * W);
        x.l = memory.take<T>(std::max(rows, W));
        x.alpha = memory.take<T>(std::max(rows, W));
        x.o_tile = memory.take<T>(rows * padded_to_four(head_dim_v));
        x.l_tile = memory.take<T>(rows);
        x.l_exact = memory.take<T>(rows);
        x.no_value = memory.take<T>(no_value_words);
        return x;
    }
};

// What the narrow unit came to on some of the keys, not normalised.
template <class T>
struct narrow_state {
    T* m;    // rows
    T* l;    // rows; l_exact likewise, where weights are rounded
    T* l_exact;
    T* o;    // rows x padded head_dim_v, in the unit's order

    static narrow_state lay_out(arena& memory, index rows, index head_dim_v) noexcept {
        narrow_state s;
        s.m = memory.take<T>(rows);
        s.l = memory.take<T>(rows);
        s.l_exact = memory.take<T>(rows);
        s.o = memory.take<T>(rows * narrow_scratch<T>::padded_to_four(head_dim_v));
        return s;
    }
};

// The first n elements at p, at most W; lanes beyond them are 0, and nothing beyond them is read.
template <class T, class Element>
IMBREX_ALWAYS_INLINE lanes<T> load_upto(Element const* p, index n) noexcept {
    return n >= lane_count<T> ? seam<T>::load(p) : seam<T>::load_first(p, static_cast<int>(n));
}

// to[...] = scale * query row, in the order of pairs of K's element type.
template <class K, class T, class Q>
IMBREX_NOINLINE void pack_query(Q const* source, index head_dim, T scale, T* to) noexcept {
    constexpr int W = lane_count<T>;
    alignas(64) array_of<T, 2 * W> pair;
    index d = 0;
    for (; d + 2 * W <= head_dim; d += 2 * W) {
        (seam<T>::load(source + d) * lanes<T>(scale)).store_aligned(pair);
        (seam<T>::load(source + d + W) * lanes<T>(scale)).store_aligned(pair + W);
        for (int i = 0; i < 2 * W; ++i) to[d + row_pair_lane<T, K>(i)] = pair[i];
    }
    for (; d < head_dim; d += W) (load_upto<T>(source + d, head_dim - d) * lanes<T>(scale)).store_aligned(to + d);
}

// output row = inverse * o[...], which is in the order of pairs of V's element type.
template <class E, class T, class O>
IMBREX_NOINLINE void unpack_output(T const* o, index head_dim_v, T inverse, O* to) noexcept {
    constexpr int W = lane_count<T>;
    alignas(64) array_of<T, 2 * W> pair;
    index d = 0;
    for (; d + 2 * W <= head_dim_v; d += 2 * W) {
        for (int i = 0; i < 2 * W; ++i) pair[i] = o[d + row_pair_lane<T, E>(i)] * inverse;
        seam<T>::store(to + d, lanes<T>::load_aligned(pair));
        seam<T>::store(to + d + W, lanes<T>::load_aligned(pair + W));
    }
    for (; d < head_dim_v; d += W) {
        lanes<T> const x = lanes<T>::load_aligned(o + d) * lanes<T>(inverse);
        if (d + W <= head_dim_v) {
            seam<T>::store(to + d, x);
        } else {
            seam<T>::store_first(to + d, x, static_cast<int>(head_dim_v - d));
        }
    }
}

IMBREX_ISA_END
