// A mask of the caller's own, from lambdas:
//     mask_fn{[](auto const&, auto const& q, auto const& kv) { return kv <= q; }}
// With keep alone it is right; with classify, and bounds, the kernel can skip tiles and look at fewer keys.
#pragma once

#include <type_traits>

#include "imbrex/mask.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex {

// The classify of a mask_fn that was given none.
struct always_partial {
    constexpr coverage operator()(head_context const&, tile_window const&) const noexcept { return coverage::partial; }
};
// The bounds of a mask_fn that was given none.
struct all_keys {
    constexpr kv_range operator()(head_context const& ctx, position, position) const noexcept { return {0, ctx.kv_len}; }
};

// keep(ctx, q, kv)                    whether the query at q sees key kv; q, kv and ctx.head() are numbers or lanes of integers
// classify(ctx, tile_window)          a coverage that agrees with keep
// bounds(ctx, q_first, q_last)        the kv_range that queries in [q_first, q_last] may see at most
template <class Keep, class Classify = always_partial, class Bounds = all_keys>
class mask_fn {
    static_assert(std::is_invocable_r_v<bool, Keep const&, row_context<position> const&, position, position>,
                  "imbrex: mask_fn's keep must be callable as keep(ctx, q, kv) and say as a bool whether q may see kv; make it "
                  "generic in q and kv, which are numbers or lanes");
    static_assert(std::is_invocable_r_v<coverage, Classify const&, head_context const&, tile_window const&>,
                  "imbrex: mask_fn's classify must be callable as classify(ctx, tile_window) and return an imbrex::coverage");
    static_assert(std::is_invocable_r_v<kv_range, Bounds const&, head_context const&, position, position>,
                  "imbrex: mask_fn's bounds must be callable as bounds(ctx, q_first, q_last) and return an imbrex::kv_range");

public:
    constexpr explicit mask_fn(Keep keep, Classify classify = {}, Bounds bounds = {}) noexcept
        : keep_{keep}, classify_{classify}, bounds_{bounds} {}

    template <class Ctx, class Q, class K>
    constexpr auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        static_assert(
            std::is_invocable_v<Keep const&, Ctx const&, Q const&, K const&>,
            "imbrex: mask_fn's keep takes numbers only; make it generic, as [](auto const& ctx, auto const& q, auto const& "
            "kv), so that it runs on lanes too, or call lanewise_mask in it");
        return keep_(ctx, q, kv);
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept { return classify_(ctx, w); }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        return bounds_(ctx, q_first, q_last);
    }

private:
    [[no_unique_address]] Keep keep_;
    [[no_unique_address]] Classify classify_;
    [[no_unique_address]] Bounds bounds_;
};

}    // namespace imbrex
