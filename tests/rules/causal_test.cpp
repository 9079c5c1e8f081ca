// rules/causal.hpp: both alignments against their definition, at any lengths.
#include "imbrex/rules/causal.hpp"

#include <algorithm>
#include <type_traits>

#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;

TEST(Causal, TopLeftSeesKeysUpToTheQuerysOwnNumber) {
    for_each_context([](head_context const& ctx) {
        for (position i = 0; i < ctx.q_len; ++i) {
            for (position j = 0; j < ctx.kv_len; ++j) {
                ASSERT_EQ(causal{align::top_left}.keep(ctx, ctx.query_offset() + i, j), j <= i);
            }
        }
    });
}

TEST(Causal, BottomRightSeesKeysUpToTheQuerysOwnNumberPlusTheDifferenceOfLengths) {
    for_each_context([](head_context const& ctx) {
        for (position i = 0; i < ctx.q_len; ++i) {
            for (position j = 0; j < ctx.kv_len; ++j) {
                ASSERT_EQ(causal{align::bottom_right}.keep(ctx, ctx.query_offset() + i, j), j <= i + ctx.kv_len - ctx.q_len);
            }
        }
    });
}

TEST(Causal, OneQueryOnEightKeysSeesAllOrOnlyTheFirst) {
    EXPECT_EQ(picture(causal{align::bottom_right}, 1, 8), (rows{"11111111"}));
    EXPECT_EQ(picture(causal{align::top_left}, 1, 8), (rows{"10000000"}));
}

TEST(Causal, AlignmentDoesNotFlipWhenThereAreMoreQueriesThanKeys) {
    EXPECT_EQ(picture(causal{align::bottom_right}, 2, 5), (rows{"11110", "11111"}));
    EXPECT_EQ(picture(causal{align::bottom_right}, 5, 2), (rows{"00", "00", "00", "10", "11"}));
    EXPECT_EQ(picture(causal{align::top_left}, 5, 2), (rows{"10", "11", "11", "11", "11"}));
}

TEST(Causal, FourCachedAndTwoNewTokensAreOneChunk) {
    EXPECT_EQ(picture(causal{align::bottom_right}, 2, 6), (rows{"111110", "111111"}));
}

TEST(Causal, AlignmentsAgreeOnASquare) {
    for (position n = 0; n <= longest; ++n) {
        EXPECT_EQ(picture(causal{align::top_left}, n, n), picture(causal{align::bottom_right}, n, n));
    }
}

TEST(Causal, ShortcutsAndLanesAgreeWithKeepForBothAlignments) {
    expect_consistent(causal{align::top_left});
    expect_consistent(causal{align::bottom_right});
}

// Lengths near 2^31 - 1, where sums of positions no longer fit 32 bits.
TEST(Causal, HoldsAtTheLongestLengths) {
    constexpr position most = static_cast<position>(imbrex::max_length);
    struct {
        position q_len, kv_len;
    } const lengths[] = {{most, most}, {1, most}, {most, 1}, {most, 0}, {most, most - 1}};
    for (auto const& l : lengths) {
        head_context const ctx{0, l.q_len, l.kv_len};
        position const first = ctx.query_offset();
        for (position const i : {position{0}, position{1}, l.q_len - 1}) {
            if (i >= l.q_len) continue;
            position const q = first + i;
            for (align const a : {align::top_left, align::bottom_right}) {
                index const last_seen = a == align::top_left ? index{i} : index{i} + l.kv_len - l.q_len;
                for (index const kv : {index{0}, index{l.kv_len} - 1, last_seen, last_seen + 1}) {
                    if (kv < 0 || kv >= l.kv_len) continue;
                    position const j = static_cast<position>(kv);
                    EXPECT_EQ(causal{a}.keep(ctx, q, j), kv <= last_seen);
                    EXPECT_EQ(causal{a}.classify(ctx, {q, q, j, static_cast<position>(j + 1)}),
                              kv <= last_seen ? coverage::full : coverage::none);
                }
                kv_range const bounds = causal{a}.kv_bounds(ctx, q, q);
                EXPECT_EQ(bounds.begin, 0);
                EXPECT_EQ(bounds.end, std::clamp<index>(last_seen + 1, 0, l.kv_len));
            }
        }
    }
}

TEST(Causal, AlignmentIsAlwaysSaid) {
    static_assert(!std::is_default_constructible_v<causal> && !std::is_convertible_v<align, causal>);
}

}    // namespace
}    // namespace imbrex_test
