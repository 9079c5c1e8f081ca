// rules/window.hpp: keys counted beside the query's own, at any lengths.
#include "imbrex/rules/window.hpp"

#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::unbounded;
using imbrex::window;

TEST(Window, OfTwoKeysAtPositionFiveSeesKeysFourAndFive) {
    EXPECT_EQ(picture(window{.left = 1, .right = 0}, 1, 6), (rows{"000011"}));
    EXPECT_EQ(picture(window{.left = 1, .right = 0}, 3, 8)[0], "00001100");
}

TEST(Window, CountsKeysOnEachSideBesideTheQuerysOwn) {
    EXPECT_EQ(picture(window{.left = 1, .right = 2}, 4, 6), (rows{"011110", "001111", "000111", "000011"}));
    EXPECT_EQ(picture(window{.left = 0, .right = 0}, 3, 3), (rows{"100", "010", "001"}));
    EXPECT_EQ(picture(window{.left = 0, .right = 3}, 5, 2), (rows{"10", "11", "11", "11", "01"}));
}

TEST(Window, IsUnboundedOnASideThatIsNotSaid) {
    EXPECT_EQ(picture(window{}, 2, 4), (rows{"1111", "1111"}));
    EXPECT_EQ(picture(window{.left = 1}, 3, 4), (rows{"1111", "0111", "0011"}));
    EXPECT_EQ(picture(window{.right = 0}, 3, 4), picture(causal{align::bottom_right}, 3, 4));
}

TEST(Window, ThatIsUnboundedOnTheLeftIsCausalToTheTile) {
    for_each_context([](head_context const& ctx) {
        for (index const left : {unbounded, index{ctx.kv_len} - 1}) {
            window const w{.left = std::max<index>(left, 0), .right = 0};
            for_each_window(ctx, [&](tile_window const& t) { ASSERT_EQ(w.classify(ctx, t), causal{align::bottom_right}.classify(ctx, t)); });
            for_each_queries(ctx, [&](position first, position last) {
                ASSERT_EQ(w.kv_bounds(ctx, first, last).begin, 0);
                ASSERT_EQ(w.kv_bounds(ctx, first, last).end, causal{align::bottom_right}.kv_bounds(ctx, first, last).end);
            });
        }
    });
}

TEST(Window, ShortcutsAndLanesAgreeWithKeep) {
    for (index const left : {index{0}, index{1}, index{2}, index{6}, index{100}, unbounded}) {
        for (index const right : {index{0}, index{1}, index{3}, index{100}, unbounded}) {
            SCOPED_TRACE(testing::Message() << "left " << left << ", right " << right);
            expect_consistent(window{left, right});
        }
    }
}

// Lengths near 2^31 - 1, where sums of positions no longer fit 32 bits.
TEST(Window, HoldsAtTheLongestLengths) {
    constexpr position most = static_cast<position>(imbrex::max_length);
    for (auto const& [q_len, kv_len] : {std::pair{most, most}, {1, most}, {most, 1}, {most, most - 1}}) {
        head_context const ctx{0, q_len, kv_len};
        for (position const i : {0, q_len / 2, q_len - 1}) {
            position const q = ctx.query_offset() + i;
            for (index const side : {index{0}, index{1}, index{most}, unbounded}) {
                window const w{side, side};
                for (position const kv : {0, kv_len / 2, kv_len - 1}) {
                    bool const seen = std::abs(index{q} - kv) <= side;
                    EXPECT_EQ(w.keep(ctx, q, kv), seen);
                    EXPECT_EQ(w.classify(ctx, {q, q, kv, static_cast<position>(kv + 1)}), seen ? coverage::full : coverage::none);
                    kv_range const r = w.kv_bounds(ctx, q, q);
                    EXPECT_EQ(kv >= r.begin && kv < r.end, seen);
                }
            }
        }
    }
}

TEST(Window, RefusesANegativeSide) {
    EXPECT_TRUE(check(window{0, 0}, {1, 1, 5, 5}).ok());
    EXPECT_STATUS(check(window{.left = -1}, {1, 1, 5, 5}), rule_value);
    EXPECT_STATUS(check(window{.right = -2}, {1, 1, 5, 5}), rule_value);
    EXPECT_EQ(check(window{.right = -2}, {1, 1, 5, 5}).message().view(),
              "imbrex: the rule's window is -2 on the right; it must be 0 or more");
}

}    // namespace
}    // namespace imbrex_test
