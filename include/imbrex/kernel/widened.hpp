// Keys and values in the type that a unit computes in: in place where they are stored in it and in one run, else widened,
// or gathered, into scratch: a tile at a time, or a kv head once per call.
#pragma once

#include <algorithm>

#include "imbrex/mask.hpp"
#include "imbrex/problem.hpp"
#include "imbrex/rows.hpp"
#include "imbrex/simd/encoded.hpp"
#include "imbrex/view.hpp"
#include "imbrex/workspace.hpp"

IMBREX_ISA_BEGIN

// Rows [0, count) of `from`, n numbers each, as T at `to`, rows to_stride apart. Prefetches a few rows ahead, since rows that
// lie far apart are beyond the hardware's prefetchers.
template <class T, row_set Rows>
IMBREX_NOINLINE void widen_rows(Rows from, index count, index n, T* to, index to_stride) noexcept {
    using E = typename Rows::element;
    constexpr index line = static_cast<index>(64 / sizeof(E));
    constexpr index rows_ahead = 8;
    for (index j = 0; j < count; ++j, to += to_stride) {
        E const* const source = from.row(j);
        E const* const ahead = from.row(std::min(j + rows_ahead, count - 1));
        for (index d = 0; d < row_units<E>(n); d += line) prefetch(ahead + d);
        if constexpr (has_side_scales<Rows>)
            widen_row<T>(source, from.scales(j), n, to);
        else
            widen_row<T>(source, n, to);
    }
}

// Row stride of a contiguous copy: whole vectors, so that every row starts aligned.
template <class T>
constexpr index copied_stride(index n) noexcept {
    constexpr index W = lane_count<T>;
    return (n + W - 1) / W * W;
}

template <class T>
struct widening_scratch {
    T* keys = nullptr;      // kv_cols x copied_stride(head_dim)
    T* values = nullptr;    // kv_cols x copied_stride(head_dim_v)

    // gathered: keys and values may come in several runs of rows.
    template <class K, class E>
    static widening_scratch lay_out(arena& memory, index head_dim, index head_dim_v, index kv_cols, bool gathered) noexcept {
        widening_scratch s;
        if (gathered || !std::is_same_v<K, T>) s.keys = memory.take<T>(kv_cols * copied_stride<T>(head_dim));
        if (gathered || !std::is_same_v<E, T>) s.values = memory.take<T>(kv_cols * copied_stride<T>(head_dim_v));
        return s;
    }
};

// A kv head of any encoding and addressing, seen as rows of T a stride apart.
template <class T, class Head>
struct widened {
    Head head;
    widening_scratch<T> scratch;
    index head_dim = 0;
    index head_dim_v = 0;
    position held_from = head.held_from;

    kv_tile<rows<T>, rows<T>> tile(index kv_begin, index kv_end) const noexcept {
        auto const t = head.tile(kv_begin, kv_end);
        index const n = kv_end - kv_begin;
        return {as_t(t.keys, n, head_dim, scratch.keys), as_t(t.values, n, head_dim_v, scratch.values)};
    }

private:
    template <row_set Rows>
    static rows<T> as_t(Rows const& source, index count, index n, T* to) noexcept {
        if constexpr (std::is_same_v<Rows, rows<T>>) {
            return source;
        } else {
            if constexpr (std::is_same_v<typename Rows::element, T>) {
                if (auto const run = source.in_one_run(count)) return *run;
            }
            index const stride = copied_stride<T>(n);
            widen_rows<T>(source, count, n, to, stride);
            return {to, stride};
        }
    }
};

// The tokens of a kv head that are there, as rows of T in memory of the call's own: those of keys, then those of values.
template <class T>
struct copied_head {
    rows<T> keys, values;
    position held_from;
    index head_dim, head_dim_v;

    static index bytes(problem const& p, index tokens) noexcept {
        return tokens * (copied_stride<T>(p.head_dim) + copied_stride<T>(p.head_dim_v)) * static_cast<index>(sizeof(T));
    }
    template <class Head>
    static copied_head of(Head const&, kv_range held, problem const& p, kv_layout, std::byte* memory) noexcept {
        auto* const to = reinterpret_cast<T*>(memory);
        index const stride = copied_stride<T>(p.head_dim);
        return {{to, stride},
                {to + (held.end - held.begin) * stride, copied_stride<T>(p.head_dim_v)},
                held.begin,
                p.head_dim,
                p.head_dim_v};
    }
    template <class Head>
    void pack(Head const& from, kv_range tokens) const noexcept {
        auto const t = from.tile(tokens.begin, tokens.end);
        auto const to = tile(tokens.begin, tokens.end);
        index const count = tokens.end - tokens.begin;
        widen_rows<T>(t.keys, count, head_dim, const_cast<T*>(to.keys.data), to.keys.stride);
        widen_rows<T>(t.values, count, head_dim_v, const_cast<T*>(to.values.data), to.values.stride);
    }

    kv_tile<rows<T>, rows<T>> tile(index kv_begin, index) const noexcept {
        return {keys.from(kv_begin - held_from), values.from(kv_begin - held_from)};
    }
};

IMBREX_ISA_END
