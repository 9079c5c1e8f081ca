// Keys that a sequence of a padded batch has.
#pragma once

#include "imbrex/rules/operands.hpp"

namespace imbrex {

// The coverage of a tile by the keys before `end`.
constexpr coverage keys_before(position end, tile_window const& w) noexcept {
    if (w.kv_end <= end) return coverage::full;
    return w.kv_begin < end ? coverage::partial : coverage::none;
}

// Padding at the end: query q of sequence b sees key kv when kv < lengths[b]. 0 <= lengths[b] <= Sk.
// Positions stay those of the buffer: key Sk - 1 faces the last query, padding or not.
struct key_lengths {
    std::span<position const> lengths;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const&, K const& kv) const noexcept {
        return kv < K(end(ctx));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept { return keys_before(end(ctx), w); }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position) const noexcept { return {0, end(ctx)}; }
    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_per_sequence(rule_operand::key_lengths, lengths, call, 0, call.kv_tokens);
    }

private:
    constexpr position end(head_context const& ctx) const noexcept {
        return std::min(lengths[static_cast<std::size_t>(ctx.batch)], ctx.kv_len);
    }
};

// Padding at the start: query q of sequence b sees key kv when kv >= padding[b]. 0 <= padding[b] <= Sk.
struct left_padding {
    std::span<position const> padding;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const&, K const& kv) const noexcept {
        return kv >= K(begin(ctx));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        return opposite(keys_before(begin(ctx), w));
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position) const noexcept { return {begin(ctx), ctx.kv_len}; }
    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_per_sequence(rule_operand::left_padding, padding, call, 0, call.kv_tokens);
    }

private:
    constexpr position begin(head_context const& ctx) const noexcept {
        return std::min(padding[static_cast<std::size_t>(ctx.batch)], ctx.kv_len);
    }
};

}    // namespace imbrex
