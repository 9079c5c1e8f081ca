// The vocabulary of masks: which keys a query may see.
//
// keep(ctx, q, kv) is the definition: q and kv are token positions, each a scalar or lanes of integers, and it returns a bool
// or a mask over those lanes. classify(ctx, window) and kv_bounds(ctx, q_first, q_last) are shortcuts that must agree with it:
// `partial` and the whole range are always legal.
// Positions: key j is at j, query i at kv_len - q_len + i, so that the last query stands at the last key (bottom-right).
#pragma once

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
concept score_mask = requires(M const& mask, head_context const& ctx, position p, tile_window const& w) {
    { mask.keep(ctx, p, p) } -> std::convertible_to<bool>;
    { mask.classify(ctx, w) } -> std::same_as<coverage>;
    { mask.kv_bounds(ctx, p, p) } -> std::same_as<kv_range>;
};

}    // namespace imbrex
