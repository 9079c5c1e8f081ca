// A kv head of bf16 or f16, of any addressing, as tiles of the AMX unit.
#pragma once

#include "imbrex/kernel/widened.hpp"
#include "imbrex/units/amx_packing.hpp"

IMBREX_ISA_BEGIN

// Blocks of keys and values in memory of the call's own.
struct amx_blocks {
    using g = amx_geometry;

    bf16* keys = nullptr;
    bf16* values = nullptr;
    index head_dim = 0, head_dim_v = 0;
    int limbs = 1;

    static constexpr index whole(index tokens) noexcept { return (tokens + g::block - 1) / g::block * g::block; }

    static amx_blocks lay_out(arena& memory, index head_dim, index head_dim_v, index tokens, int limbs = 1) noexcept {
        amx_blocks b{nullptr, nullptr, head_dim, head_dim_v, limbs};
        b.keys = memory.take<bf16>(whole(tokens) * g::padded(head_dim) * limbs);
        b.values = memory.take<bf16>(whole(tokens) * g::padded(head_dim_v) * limbs);
        return b;
    }
    // Those from a token on that starts one.
    amx_blocks from(index token) const noexcept {
        index const at = token * limbs;
        return {keys + at * g::padded(head_dim), values + at * g::padded(head_dim_v), head_dim, head_dim_v, limbs};
    }
    amx_tile tile() const noexcept { return {keys, values}; }

    // Of n tokens.
    template <class Keys, class Values>
    void pack(kv_tile<Keys, Values> const& t, index n) const noexcept {
        for (index j = 0; j < n; j += g::block) {
            index const here = std::min(g::block, n - j), ahead = std::min(g::block, n - j - here);
            prefetch_rows(t.keys, j + here, ahead, head_dim);
            prefetch_rows(t.values, j + here, ahead, head_dim_v);
            amx_blocks const to = from(j);
            pack_amx_keys(t.keys.from(j), here, head_dim, to.keys);
            pack_amx_values(t.values.from(j), here, head_dim_v, to.values);
        }
    }
};

// Each tile made when it is asked for.
template <class Head>
struct amx_tiles_of {
    Head head;
    amx_blocks scratch;
    index head_dim = 0;
    index head_dim_v = 0;
    position held_from = head.held_from;

    amx_tile tile(index kv_begin, index kv_end) const noexcept {
        scratch.pack(head.tile(kv_begin, kv_end), kv_end - kv_begin);
        return scratch.tile();
    }
};

// The tokens of a kv head that are there, made once per call.
template <int Limbs>
struct amx_packed_head {
    amx_blocks blocks;
    position held_from;

    static index bytes(problem const& p, index tokens) noexcept {
        arena count{nullptr};
        amx_blocks::lay_out(count, p.head_dim, p.head_dim_v, tokens, Limbs);
        return static_cast<index>(count.used());
    }
    template <class Head>
    static amx_packed_head of(Head const&, kv_range held, problem const& p, kv_layout, std::byte* memory) noexcept {
        arena pieces{memory};
        return {amx_blocks::lay_out(pieces, p.head_dim, p.head_dim_v, held.end - held.begin, Limbs), held.begin};
    }
    template <class Head>
    void pack(Head const& from, kv_range tokens) const noexcept {
        blocks.from(tokens.begin - held_from).pack(from.tile(tokens.begin, tokens.end), tokens.end - tokens.begin);
    }

    amx_tile tile(index kv_begin, index) const noexcept { return blocks.from(kv_begin - held_from).tile(); }
};

IMBREX_ISA_END
