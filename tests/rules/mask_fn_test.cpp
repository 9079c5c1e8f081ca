// rules/mask_fn.hpp: lambdas as masks.
#include "imbrex/rules/mask_fn.hpp"

#include <array>

#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::mask_fn;

constexpr imbrex::causal diagonal{imbrex::align::bottom_right};
constexpr auto not_after = [](auto const&, auto const& q, auto const& kv) { return kv <= q; };
constexpr auto classify_not_after = [](head_context const& ctx, tile_window const& w) { return diagonal.classify(ctx, w); };
constexpr auto bounds_not_after = [](head_context const& ctx, position first, position last) { return diagonal.kv_bounds(ctx, first, last); };

TEST(MaskFn, OfKeepAloneIsRightAndPartialEverywhere) {
    mask_fn const m{not_after};
    EXPECT_EQ(picture(m, 2, 5), picture(diagonal, 2, 5));
    expect_consistent(m, {shortcut::sound, shortcut::sound});
    for_each_context([&](head_context const& ctx) {
        for_each_window(ctx, [&](tile_window const& w) { ASSERT_EQ(m.classify(ctx, w), coverage::partial); });
        EXPECT_TRUE(m.kv_bounds(ctx, 0, 0).begin == 0 && m.kv_bounds(ctx, 0, 0).end == ctx.kv_len);
    });
}

TEST(MaskFn, TakesClassifyAndBounds) {
    expect_consistent(mask_fn{not_after, classify_not_after}, {shortcut::exact, shortcut::sound});
    expect_consistent(mask_fn{not_after, classify_not_after, bounds_not_after});
}

TEST(MaskFn, KeepsWhatItsLambdasHold) {
    std::array<position, q_heads> const reach{0, 2, 5, 100};
    mask_fn const m{[&reach](auto const& ctx, auto const& q, auto const& kv) {
        return imbrex::lanewise_mask([&](auto i, auto j, auto h) { return i - j <= reach[static_cast<std::size_t>(h)]; }, q, kv, ctx.head());
    }};
    EXPECT_EQ(picture(m, 1, 5, 0, 0), (rows{"00001"}));
    EXPECT_EQ(picture(m, 1, 5, 0, 1), (rows{"00111"}));
    expect_consistent(m, {shortcut::sound, shortcut::sound});
}

TEST(MaskFn, CombinesWithOtherMasks) {
    mask_fn const even{[](auto const&, auto const&, auto const& kv) { return (kv & 1) == 0; }};
    EXPECT_EQ(picture(even && diagonal, 3, 3), (rows{"100", "100", "101"}));
    expect_consistent(even && diagonal, {shortcut::sound, shortcut::sound});
    expect_consistent(!even || diagonal, {shortcut::sound, shortcut::sound});
}

TEST(MaskFn, WithoutCapturesHoldsNothing) { static_assert(sizeof(mask_fn{not_after, classify_not_after, bounds_not_after}) <= 3); }

}    // namespace
}    // namespace imbrex_test
