// A query sees the keys of its own chunk.
#pragma once

#include "imbrex/rules/operands.hpp"
#include "imbrex/rules/token_ranges.hpp"

namespace imbrex {

// Query at q sees key kv when floor(q / size) = floor(kv / size): chunked-local attention, as in Llama 4 together with causal:
//     chunked{8192} && causal{align::bottom_right}
struct chunked {
    index size;

    template <class Q, class K>
    constexpr auto keep(head_context const&, Q const& q, K const& kv) const noexcept {
        return keep_in_range(q, kv, [this](index p) noexcept { return chunk_of(p); });
    }
    constexpr coverage classify(head_context const&, tile_window const& w) const noexcept {
        return classify_ranges(chunk_of(w.q_first), chunk_of(w.q_last), w);
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        return bounds_of_ranges(chunk_of(q_first), chunk_of(q_last), ctx.kv_len);
    }
    constexpr status check(call_shape const&) const noexcept {
        bool const countable = size >= 1 && size <= max_length;
        return countable ? status{} : operands::bad_value(rule_operand::chunk, size, 0);
    }

private:
    // Positions are negative where there are more queries than keys; division rounds them up, towards 0.
    constexpr token_range chunk_of(index p) const noexcept {
        index const begin = (p - (p < 0 ? size - 1 : 0)) / size * size;
        return {begin, begin + size};
    }
};

}    // namespace imbrex
