// Every query sees every key.
#pragma once

#include "imbrex/rules/mask.hpp"

namespace imbrex {

struct full {
    template <class Q, class K>
    constexpr auto keep(head_context const&, Q const& q, K const& kv) const noexcept {
        return q - q == kv - kv;
    }
    constexpr coverage classify(head_context const&, tile_window const&) const noexcept { return coverage::full; }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position) const noexcept { return {0, ctx.kv_len}; }
};

}    // namespace imbrex
