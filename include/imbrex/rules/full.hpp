// Every query sees every key.
#pragma once

#include "imbrex/mask.hpp"

namespace imbrex {

struct full {
    template <class Q, class K>
    constexpr auto keep(head_context const&, Q const& q, K const& kv) const noexcept {
        return q - q == kv - kv;    // true in each lane, whichever of the two are lanes
    }
    constexpr coverage classify(head_context const&, tile_window const&) const noexcept { return coverage::full; }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position) const noexcept { return {0, ctx.kv_len}; }
};

}    // namespace imbrex
