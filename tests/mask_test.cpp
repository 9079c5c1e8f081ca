// mask.hpp: what a mask is, what the kernel may ask of any, and how masks combine.
#include "imbrex/mask.hpp"

#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::full;
using imbrex::operator&&, imbrex::operator||, imbrex::operator!;    // for masks of our own

struct keeps {
    bool keep(head_context const&, position, position) const { return true; }
};
struct classifies {
    coverage classify(head_context const&, tile_window const&) const { return coverage::partial; }
};
struct keeps_and_classifies : keeps, classifies {};
struct bounds_beyond : keeps_and_classifies {
    kv_range kv_bounds(head_context const&, position, position) const { return {-7, 1000}; }
};

TEST(ScoreMask, WantsKeepAndClassify) {
    static_assert(imbrex::score_mask<full> && imbrex::score_mask<causal> && imbrex::score_mask<keeps_and_classifies>);
    static_assert(!imbrex::score_mask<keeps> && !imbrex::score_mask<classifies> && !imbrex::score_mask<int>);
    static_assert(imbrex::has_kv_bounds<full> && imbrex::has_kv_bounds<causal> && !imbrex::has_kv_bounds<keeps_and_classifies>);
}

TEST(KvBounds, AreTheWholeRangeWhereARuleHasNone) {
    kv_range const r = imbrex::kv_bounds_of(keeps_and_classifies{}, {0, 3, 9}, 6, 8);
    EXPECT_EQ(r.begin, 0);
    EXPECT_EQ(r.end, 9);
}

TEST(KvBounds, AreHeldToTheKeysThatThereAre) {
    kv_range const r = imbrex::kv_bounds_of(bounds_beyond{}, {0, 3, 9}, 6, 8);
    EXPECT_EQ(r.begin, 0);
    EXPECT_EQ(r.end, 9);
    EXPECT_EQ(imbrex::kv_bounds_of(causal{align::bottom_right}, {0, 3, 9}, 6, 7).end, 8);
}

TEST(HeadContext, TheLastQueryStandsAtTheLastKey) {
    static_assert(head_context{0, 2, 6}.query_offset() == 4 && head_context{0, 6, 2}.query_offset() == -4);
}

// Masks with holes, of which the combinations are made.
struct stripes {
    position period, phase;

    template <class Q, class K>
    auto keep(head_context const&, Q const& q, K const& kv) const {
        return ((q + kv + phase) & (period - 1)) == 0;
    }
    coverage classify(head_context const&, tile_window const&) const { return coverage::partial; }
};
struct from_key {
    position first;

    template <class Q, class K>
    auto keep(head_context const&, Q const&, K const& kv) const {
        return kv >= first;
    }
    coverage classify(head_context const&, tile_window const& w) const {
        return w.kv_begin >= first ? coverage::full : w.kv_end <= first ? coverage::none : coverage::partial;
    }
    kv_range kv_bounds(head_context const& ctx, position, position) const { return {std::min(first, ctx.kv_len), ctx.kv_len}; }
};
constexpr promises sound{shortcut::sound, shortcut::sound};
constexpr causal diagonal{align::bottom_right};

template <class A, class B>
void expect_combinations_follow_their_parts(A const& a, B const& b) {
    expect_consistent(a && b, sound);
    expect_consistent(a || b, sound);
    expect_consistent(!a, sound);
    for_each_context([&](head_context const& ctx) {
        for_each_queries(ctx, [&](position q, position) {
            row_context<position> const row{ctx, 0};
            for (position kv = 0; kv < ctx.kv_len; ++kv) {
                bool const in_a = a.keep(row, q, kv), in_b = b.keep(row, q, kv);
                ASSERT_EQ((a && b).keep(row, q, kv), in_a && in_b);
                ASSERT_EQ((a || b).keep(row, q, kv), in_a || in_b);
                ASSERT_EQ((!a).keep(row, q, kv), !in_a);
            }
        });
    });
}

TEST(Combinations, SeeWhatTheirPartsSayAndSkipWhatFollows) {
    expect_combinations_follow_their_parts(diagonal, from_key{3});
    expect_combinations_follow_their_parts(from_key{2}, stripes{2, 1});
    expect_combinations_follow_their_parts(stripes{4, 0}, causal{align::top_left});
    expect_combinations_follow_their_parts(!from_key{4}, diagonal || stripes{2, 0});
    expect_combinations_follow_their_parts(full{}, diagonal);
}

TEST(Combinations, ObeyDeMorganToTheTile) {
    from_key const b{3};
    auto const left = !(diagonal && b);
    auto const right_hand = !diagonal || !b;
    for_each_context([&](head_context const& ctx) {
        EXPECT_EQ(picture(left, ctx.q_len, ctx.kv_len), picture(right_hand, ctx.q_len, ctx.kv_len));
        for_each_window(ctx, [&](tile_window const& w) { ASSERT_EQ(left.classify(ctx, w), right_hand.classify(ctx, w)); });
    });
}

TEST(Combinations, BoundsAreTheIntersectionOrTheHullOfTheParts) {
    head_context const ctx{0, 3, 9};
    kv_range const both = (diagonal && from_key{3}).kv_bounds(ctx, 6, 7), either = (!full{} || from_key{3}).kv_bounds(ctx, 6, 7);
    EXPECT_TRUE(both.begin == 3 && both.end == 8);
    EXPECT_TRUE(either.begin == 0 && either.end == 9);    // what a negation sees is anywhere
    kv_range const hull = (from_key{5} || from_key{3}).kv_bounds(ctx, 6, 7);
    kv_range const other = (from_key{9} || from_key{4}).kv_bounds(ctx, 6, 7);
    EXPECT_TRUE(hull.begin == 3 && hull.end == 9);
    EXPECT_TRUE(other.begin == 4 && other.end == 9) << "an empty range adds nothing";
}

}    // namespace
}    // namespace imbrex_test
