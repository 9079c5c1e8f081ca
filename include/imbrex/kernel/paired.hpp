// bf16 keys and values as the units take them that multiply pairs: keys in place, or gathered where they lie in several runs;
// values in pairs of keys (bf16_layout.hpp), a tile at a time, or a kv head once per call.
#pragma once

#include <algorithm>
#include <cstring>

#include "imbrex/mask.hpp"
#include "imbrex/problem.hpp"
#include "imbrex/units/wide_bf16.hpp"
#include "imbrex/workspace.hpp"

IMBREX_ISA_BEGIN

// Row stride of a copy of keys: whole cache lines.
constexpr index copied_key_stride(index head_dim) noexcept {
    constexpr index line = static_cast<index>(cache_line_bytes / sizeof(bf16));
    return (head_dim + line - 1) / line * line;
}

// Rows [0, count) as rows a stride apart.
template <row_set Rows>
IMBREX_NOINLINE void copy_keys(Rows from, index count, index head_dim, bf16* to) noexcept {
    constexpr index line = static_cast<index>(cache_line_bytes / sizeof(bf16)), rows_ahead = 8;
    for (index j = 0; j < count; ++j, to += copied_key_stride(head_dim)) {
        bf16 const* const ahead = from.row(std::min(j + rows_ahead, count - 1));
        for (index d = 0; d < head_dim; d += line) prefetch(ahead + d);
        std::memcpy(to, from.row(j), static_cast<std::size_t>(head_dim) * sizeof(bf16));
    }
}

struct pairing_scratch {
    bf16* keys = nullptr;       // kv_cols x copied_key_stride
    float* values = nullptr;    // panels of kv_cols keys
    index panel_stride = 0;

    // gathered: keys may come in several runs of rows.
    static pairing_scratch lay_out(arena& memory, index head_dim, index head_dim_v, index kv_cols, bool gathered) noexcept {
        pairing_scratch s;
        if (gathered) s.keys = memory.take<bf16>(kv_cols * copied_key_stride(head_dim));
        s.panel_stride = value_panels::stride_of(kv_cols);
        s.values = memory.take<float>(value_panels::words(kv_cols, head_dim_v));
        return s;
    }
};

// A kv head of bf16 of any addressing.
template <class Head>
struct paired {
    Head head;
    pairing_scratch scratch;
    index head_dim = 0;
    index head_dim_v = 0;
    position held_from = head.held_from;

    pair_tile tile(index kv_begin, index kv_end) const noexcept {
        auto const t = head.tile(kv_begin, kv_end);
        index const n = kv_end - kv_begin;
        interleave_values(t.values, n, head_dim_v, scratch.values, scratch.panel_stride);
        return {as_run(t.keys, n), {scratch.values, scratch.panel_stride}};
    }

private:
    template <row_set Rows>
    rows<bf16> as_run(Rows const& keys, index count) const noexcept {
        if (auto const run = keys.in_one_run(count)) return *run;
        copy_keys(keys, count, head_dim, scratch.keys);
        return {scratch.keys, copied_key_stride(head_dim)};
    }
};

// The tokens of a kv head that are there in memory of the call's own: values in pairs, and before them a copy of the keys, but of
// keys back to back, which stay where they are.
struct paired_head {
    rows<bf16> keys;
    value_panels values;
    position held_from;
    index head_dim, head_dim_v;
    bool copies_keys;

    static index key_bytes(problem const& p, index tokens) noexcept {
        if (p.layout == kv_layout::contiguous) return 0;
        return tokens * copied_key_stride(p.head_dim) * static_cast<index>(sizeof(bf16));
    }
    static index bytes(problem const& p, index tokens) noexcept {
        return key_bytes(p, tokens) + value_panels::words(tokens, p.head_dim_v) * static_cast<index>(sizeof(float));
    }
    template <class Head>
    static paired_head of(Head const& from, kv_range held, problem const& p, kv_layout layout, std::byte* memory) noexcept {
        index const tokens = held.end - held.begin;
        auto const* const values = reinterpret_cast<float const*>(memory + key_bytes(p, tokens));
        paired_head h{{}, {values, value_panels::stride_of(tokens)}, held.begin, p.head_dim, p.head_dim_v, true};
        h.keys = {reinterpret_cast<bf16 const*>(memory), copied_key_stride(p.head_dim)};
        if (layout == kv_layout::contiguous) {
            if (auto const run = from.tile(held.begin, held.end).keys.in_one_run(tokens)) h.keys = *run, h.copies_keys = false;
        }
        return h;
    }
    template <class Head>
    void pack(Head const& from, kv_range tokens) const noexcept {
        auto const t = from.tile(tokens.begin, tokens.end);
        auto const to = tile(tokens.begin, tokens.end);
        index const count = tokens.end - tokens.begin;
        if (copies_keys) copy_keys(t.keys, count, head_dim, const_cast<bf16*>(to.keys.data));
        interleave_values(t.values, count, head_dim_v, const_cast<float*>(to.values.data), values.panel_stride);
    }

    pair_tile tile(index kv_begin, index) const noexcept {
        index const first = kv_begin - held_from;
        return {keys.from(first), values.from(first / 2)};
    }
};

IMBREX_ISA_END
