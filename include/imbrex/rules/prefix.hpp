// Every query sees the first keys. Combined with ||, they stay visible whatever else hides:
//     prefix{n} || causal{align::bottom_right}        prefix-LM (Raffel et al. 2020, arXiv:1910.10683)
//     prefix{4} || window{.left = 4095, .right = 0}   attention sinks (StreamingLLM: Xiao et al. 2023, arXiv:2309.17453)
#pragma once

#include "imbrex/rules/lengths.hpp"

namespace imbrex {

// Query q sees key kv when kv < length; length may exceed the number of keys.
struct prefix {
    index length;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const&, K const& kv) const noexcept {
        return kv < K(end(ctx));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept { return keys_before(end(ctx), w); }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position) const noexcept { return {0, end(ctx)}; }
    constexpr status check(call_shape const&) const noexcept {
        return length < 0 ? operands::bad_value(rule_operand::prefix, length, 0) : status{};
    }

private:
    constexpr position end(head_context const& ctx) const noexcept {
        return static_cast<position>(std::min<index>(length, ctx.kv_len));
    }
};

// The same with a length for each sequence: lengths[batch].
struct prefix_lengths {
    std::span<position const> lengths;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const&, K const& kv) const noexcept {
        return kv < K(end(ctx));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept { return keys_before(end(ctx), w); }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position) const noexcept { return {0, end(ctx)}; }
    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_per_sequence(rule_operand::prefix, lengths, call, 0, max_length);
    }

private:
    constexpr position end(head_context const& ctx) const noexcept {
        return std::min(lengths[static_cast<std::size_t>(ctx.batch)], ctx.kv_len);
    }
};

}    // namespace imbrex
