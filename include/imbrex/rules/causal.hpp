// A query sees the keys that are not after it.
#pragma once

#include <algorithm>

#include "imbrex/mask.hpp"

namespace imbrex {

// Which corner of the Sq x Sk score matrix the diagonal starts from. Always said, never guessed, and the same when Sq > Sk.
enum class align {
    top_left,        // query i sees key j when j <= i
    bottom_right,    // query i sees key j when j <= i + Sk - Sq: what a kv cache needs
};

struct causal {
    align alignment;

    causal() = delete;    // say causal{align::bottom_right}, for queries at the end of the keys (a kv cache), or top_left
    constexpr explicit causal(align a) noexcept : alignment{a} {}

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const& q, K const& kv) const noexcept {
        return kv <= q - shift(ctx);
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        index const c = shift(ctx);
        if (w.kv_begin > w.q_last - c) return coverage::none;
        return w.kv_end - 1 <= w.q_first - c ? coverage::full : coverage::partial;
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position q_last) const noexcept {
        index const end = index{q_last} - shift(ctx) + 1;
        return {0, static_cast<position>(std::clamp<index>(end, 0, ctx.kv_len))};
    }

private:
    constexpr position shift(head_context const& ctx) const noexcept {
        return alignment == align::top_left ? ctx.query_offset() : 0;
    }
};

}    // namespace imbrex
