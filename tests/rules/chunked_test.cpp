// rules/chunked.hpp: chunks of any size, before position 0 too.
#include "imbrex/rules/chunked.hpp"

#include <cmath>

#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::chunked;

TEST(Chunked, SeesTheQuerysOwnChunk) {
    EXPECT_EQ(picture(chunked{3}, 5, 5), (rows{"11100", "11100", "11100", "00011", "00011"}));
    EXPECT_EQ(picture(chunked{3}, 1, 7), (rows{"0000001"}));
    EXPECT_EQ(picture(chunked{2} && causal{align::bottom_right}, 4, 4), (rows{"1000", "1100", "0010", "0011"}));
}

TEST(Chunked, QueriesBeforeTheFirstKeyAreInChunksOfTheirOwn) { EXPECT_EQ(picture(chunked{2}, 5, 2), (rows{"00", "00", "00", "11", "11"})); }

TEST(Chunked, IsTheQuotientOfFloors) {
    for (position const size : {1, 2, 3, 5, 7, 100}) {
        for_each_context([&](head_context const& ctx) {
            for_each_queries(ctx, [&](position q, position) {
                for (position kv = 0; kv < ctx.kv_len; ++kv) {
                    ASSERT_EQ(chunked{size}.keep(ctx, q, kv), std::floor(static_cast<double>(q) / size) == std::floor(static_cast<double>(kv) / size));
                }
            });
        });
    }
}

TEST(Chunked, ShortcutsAndLanesAgreeWithKeep) {
    for (index const size : {index{1}, index{2}, index{3}, index{4}, index{7}, index{8}, imbrex::max_length}) {
        SCOPED_TRACE(size);
        expect_consistent(chunked{size});
        expect_consistent(chunked{size} && causal{align::bottom_right}, {shortcut::sound, shortcut::sound});
        expect_consistent(!chunked{size}, {shortcut::exact, shortcut::sound});
    }
}

TEST(Chunked, HoldsAtTheLongestLengths) {
    constexpr position most = static_cast<position>(imbrex::max_length);
    head_context const ctx{0, most, most};
    chunked const c{imbrex::max_length - 1};
    imbrex::lanes<std::int32_t> const last(most - 1), first(0);
    EXPECT_TRUE(c.keep(ctx, most - 1, most - 1) && !c.keep(ctx, most - 1, 0) && c.keep(ctx, 0, most - 2));
    EXPECT_TRUE(xsimd::all(c.keep(ctx, last, last)) && !xsimd::any(c.keep(ctx, last, first)));
    EXPECT_EQ(c.classify(ctx, {0, 0, 0, most - 1}), coverage::full);
    EXPECT_EQ(c.kv_bounds(ctx, most - 1, most - 1).end, most);
}

TEST(Chunked, RefusesASizeThatCountsNothing) {
    EXPECT_TRUE(check(chunked{1}, {1, 1, 5, 5}).ok() && check(chunked{imbrex::max_length}, {1, 1, 5, 5}).ok());
    EXPECT_STATUS(check(chunked{0}, {1, 1, 5, 5}), rule_value);
    EXPECT_STATUS(check(chunked{-8}, {1, 1, 5, 5}), rule_value);
    EXPECT_STATUS(check(chunked{imbrex::max_length + 1}, {1, 1, 5, 5}), rule_value);
}

}    // namespace
}    // namespace imbrex_test
