// A query sees the keys near its own.
#pragma once

#include <algorithm>
#include <limits>

#include "imbrex/rules/operands.hpp"

namespace imbrex {

inline constexpr index unbounded = std::numeric_limits<index>::max();

// Query at q sees key kv when q - left <= kv <= q + right: keys counted beside the query's own, so that left = w - 1 and right =
// 0 see w keys, itself included (Mistral, Gemma). left = unbounded and right = 0 is causal{align::bottom_right}.
struct window {
    index left = unbounded;
    index right = unbounded;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const& q, K const& kv) const noexcept {
        // No key is further left than kv_len, none further right than q_len: held to those, nothing overflows.
        position const l = static_cast<position>(std::min<index>(left, ctx.kv_len));
        position const r = static_cast<position>(std::min<index>(right, ctx.q_len));
        return mask_and(kv >= q - l, kv - r <= q);
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        index const l = std::min<index>(left, ctx.kv_len), r = std::min<index>(right, ctx.q_len);
        if (w.kv_end <= w.q_first - l || w.kv_begin > w.q_last + r) return coverage::none;
        return w.kv_begin >= w.q_last - l && w.kv_end - 1 <= w.q_first + r ? coverage::full : coverage::partial;
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        index const begin = q_first - std::min<index>(left, ctx.kv_len);
        index const end = q_last + std::min<index>(right, ctx.q_len) + 1;
        index const last = std::clamp<index>(end, 0, ctx.kv_len);
        return {static_cast<position>(std::clamp<index>(begin, 0, last)), static_cast<position>(last)};
    }
    constexpr status check(call_shape const&) const noexcept {
        if (left < 0) return operands::bad_value(rule_operand::window, left, 0);
        return right < 0 ? operands::bad_value(rule_operand::window, right, 1) : status{};
    }
};

}    // namespace imbrex
