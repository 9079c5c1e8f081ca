// mask.hpp and rules/: each mask against its definition, and its shortcuts against itself, over every small window there is.
#include "imbrex/mask.hpp"
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "imbrex/mask.hpp"
#include "imbrex/simd.hpp"

namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::coverage;
using imbrex::full;
using imbrex::head_context;
using imbrex::index;
using imbrex::kv_range;
using imbrex::position;
using imbrex::tile_window;

constexpr position longest = 7;

// Calls f(ctx) for every pair of lengths, 0 included.
template <class F>
void for_each_context(F f) {
    for (position q = 0; q <= longest; ++q) {
        for (position kv = 0; kv <= longest; ++kv) f(head_context{0, q, kv});
    }
}

// Calls f(window) for every window of queries and keys of a context.
template <class F>
void for_each_window(head_context const& ctx, F f) {
    position const first = ctx.query_offset();
    for (position a = first; a < first + ctx.q_len; ++a) {
        for (position b = a; b < first + ctx.q_len; ++b) {
            for (position begin = 0; begin < ctx.kv_len; ++begin) {
                for (position end = begin + 1; end <= ctx.kv_len; ++end) f(tile_window{a, b, begin, end});
            }
        }
    }
}

struct tally {
    int kept = 0;
    int all = 0;
};

template <class Rule>
tally count_kept(Rule const& rule, head_context const& ctx, tile_window const& w) {
    tally t;
    for (position q = w.q_first; q <= w.q_last; ++q) {
        for (position kv = w.kv_begin; kv < w.kv_end; ++kv) {
            t.kept += rule.keep(ctx, q, kv) ? 1 : 0;
            ++t.all;
        }
    }
    return t;
}

template <class Rule>
void expect_classify_is_exact(Rule const& rule) {
    for_each_context([&](head_context const& ctx) {
        for_each_window(ctx, [&](tile_window const& w) {
            tally const t = count_kept(rule, ctx, w);
            coverage const exact = t.kept == 0 ? coverage::none : t.kept == t.all ? coverage::full : coverage::partial;
            ASSERT_EQ(rule.classify(ctx, w), exact)
                << "Sq " << ctx.q_len << ", Sk " << ctx.kv_len << ", queries [" << w.q_first << ", " << w.q_last << "], keys ["
                << w.kv_begin << ", " << w.kv_end << "), kept " << t.kept << " of " << t.all;
        });
    });
}

template <class Rule>
void expect_bounds_are_exact(Rule const& rule) {
    for_each_context([&](head_context const& ctx) {
        position const offset = ctx.query_offset();
        for (position first = offset; first < offset + ctx.q_len; ++first) {
            for (position last = first; last < offset + ctx.q_len; ++last) {
                kv_range const r = rule.kv_bounds(ctx, first, last);
                ASSERT_TRUE(r.begin >= 0 && r.begin <= r.end && r.end <= ctx.kv_len);
                position highest = 0;
                for (position kv = 0; kv < ctx.kv_len; ++kv) {
                    if (count_kept(rule, ctx, {first, last, kv, kv + 1}).kept > 0) {
                        ASSERT_TRUE(kv >= r.begin && kv < r.end) << "key " << kv << " is seen but left out";
                        highest = kv + 1;
                    }
                }
                ASSERT_EQ(r.end, highest) << "Sq " << ctx.q_len << ", Sk " << ctx.kv_len;
            }
        }
    });
}

// keep on lanes is keep on each lane, for lanes of queries and of keys.
template <class I, class Rule>
void expect_lanes_agree(Rule const& rule) {
    using lanes = xsimd::batch<I>;
    constexpr std::size_t W = lanes::size;
    for_each_context([&](head_context const& ctx) {
        position const offset = ctx.query_offset();
        for (position q = offset; q < offset + ctx.q_len; ++q) {
            for (position kv = 0; kv < ctx.kv_len; ++kv) {
                std::vector<I> qs(W), kvs(W);
                for (std::size_t i = 0; i < W; ++i) {
                    qs[i] = static_cast<I>(q + static_cast<position>(i % 3));
                    kvs[i] = static_cast<I>(kv + static_cast<position>(i % 4));
                }
                lanes const q_lanes = lanes::load_unaligned(qs.data()), kv_lanes = lanes::load_unaligned(kvs.data());
                lanes const both = xsimd::select(rule.keep(ctx, q_lanes, kv_lanes), lanes(I(1)), lanes(I(0)));
                lanes const one_key = xsimd::select(rule.keep(ctx, q_lanes, lanes(static_cast<I>(kv))), lanes(I(1)), lanes(I(0)));
                std::vector<I> kept(W), kept_one(W);
                both.store_unaligned(kept.data());
                one_key.store_unaligned(kept_one.data());
                for (std::size_t i = 0; i < W; ++i) {
                    position const own_q = static_cast<position>(qs[i]), own_kv = static_cast<position>(kvs[i]);
                    ASSERT_EQ(kept[i] != 0, static_cast<bool>(rule.keep(ctx, own_q, own_kv)));
                    ASSERT_EQ(kept_one[i] != 0, static_cast<bool>(rule.keep(ctx, own_q, kv)));
                }
            }
        }
    });
}

template <class Rule>
void expect_consistent(Rule const& rule) {
    static_assert(imbrex::score_mask<Rule>);
    expect_classify_is_exact(rule);
    expect_bounds_are_exact(rule);
    expect_lanes_agree<std::int32_t>(rule);
    expect_lanes_agree<std::int64_t>(rule);
}

// The picture that a rule draws of Sq x Sk, a row per query.
template <class Rule>
std::vector<std::string> picture(Rule const& rule, position q_len, position kv_len) {
    head_context const ctx{0, q_len, kv_len};
    std::vector<std::string> rows;
    for (position i = 0; i < q_len; ++i) {
        std::string row;
        for (position kv = 0; kv < kv_len; ++kv) row += rule.keep(ctx, ctx.query_offset() + i, kv) ? '1' : '0';
        rows.push_back(row);
    }
    return rows;
}
using rows = std::vector<std::string>;

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

TEST(Full, KeepsEverythingAndItsShortcutsSaySo) {
    for_each_context([](head_context const& ctx) {
        for_each_window(ctx, [&](tile_window const& w) {
            tally const t = count_kept(full{}, ctx, w);
            ASSERT_EQ(t.kept, t.all);
        });
    });
    expect_consistent(full{});
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

TEST(Causal, AlignmentIsAlwaysSaid) {
    static_assert(!std::is_default_constructible_v<causal> && !std::is_convertible_v<align, causal>);
}

}    // namespace
