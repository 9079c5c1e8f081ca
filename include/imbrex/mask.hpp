// The vocabulary of masks: which keys a query may see.
//
// keep(ctx, q, kv) is the definition: q and kv are token positions, each a scalar or lanes of integers, and it returns a bool
// or a mask over those lanes. classify(ctx, window) and, optionally, kv_bounds(ctx, q_first, q_last) are shortcuts that must
// agree with it: `partial` and the whole range are always legal. Positions: key j is at j, query i at kv_len - q_len + i, so that
// the last query stands at the last key (bottom-right).
#pragma once

#include <algorithm>
#include <concepts>

#include "imbrex/config.hpp"

namespace imbrex {

enum class coverage { none, partial, full };

// What a rule may know of where it is asked.
struct head_context {
    index batch = 0;
    position q_len = 0;
    position kv_len = 0;

    constexpr position query_offset() const noexcept { return kv_len - q_len; }    // of query 0; negative when q_len > kv_len
};

// Queries at positions [q_first, q_last] against keys [kv_begin, kv_end).
struct tile_window {
    position q_first = 0;
    position q_last = 0;
    position kv_begin = 0;
    position kv_end = 0;
};

struct kv_range {
    position begin = 0;
    position end = 0;
};

template <class M>
concept has_keep = requires(M const& mask, head_context const& ctx, position p) {
    { mask.keep(ctx, p, p) } -> std::convertible_to<bool>;
};

template <class M>
concept has_classify = requires(M const& mask, head_context const& ctx, tile_window const& w) {
    { mask.classify(ctx, w) } -> std::same_as<coverage>;
};

template <class M>
concept has_kv_bounds = requires(M const& mask, head_context const& ctx, position p) {
    { mask.kv_bounds(ctx, p, p) } -> std::same_as<kv_range>;
};

template <class M>
concept score_mask = has_keep<M> && has_classify<M>;

// The keys that queries at positions [q_first, q_last] may see at most: the mask's own bounds, held to the keys there are.
template <score_mask M>
constexpr kv_range kv_bounds_of(M const& mask, head_context const& ctx, position q_first, position q_last) noexcept {
    if constexpr (has_kv_bounds<M>) {
        kv_range const r = mask.kv_bounds(ctx, q_first, q_last);
        return {std::max<position>(r.begin, 0), std::min(r.end, ctx.kv_len)};
    } else {
        return {0, ctx.kv_len};
    }
}

}    // namespace imbrex
