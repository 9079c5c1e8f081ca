// What every mask is held to: its shortcuts and its lanes against its own scalar keep, over every small context and window.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "imbrex/rule.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex_test {

using imbrex::coverage;
using imbrex::head_context;
using imbrex::index;
using imbrex::kv_range;
using imbrex::position;
using imbrex::row_context;
using imbrex::tile_window;

constexpr position longest = 7;

// What the operands of a mask under test are made for.
constexpr index batches = 2, q_heads = 4;

// Calls f(ctx) for every pair of lengths, 0 included.
template <class F>
void for_each_context(F const& f) {
    for (position q = 0; q <= longest; ++q) {
        for (position kv = 0; kv <= longest; ++kv) f(head_context{0, q, kv});
    }
}

// The same for every sequence, and for groups of one head and of two.
template <class F>
void for_each_group(F const& f) {
    for_each_context([&](head_context ctx) {
        for (ctx.batch = 0; ctx.batch < batches; ++ctx.batch) {
            for (auto const& [first, count] : {std::pair{0, 1}, {3, 1}, {2, 2}}) {
                ctx.head_first = first;
                ctx.head_count = count;
                f(ctx);
            }
        }
    });
}

// Calls f(first, last) for every stretch of queries of a context, in positions.
template <class F>
void for_each_queries(head_context const& ctx, F const& f) {
    position const offset = ctx.query_offset();
    for (position first = offset; first < offset + ctx.q_len; ++first) {
        for (position last = first; last < offset + ctx.q_len; ++last) f(first, last);
    }
}

// Calls f(window) for every window of queries and keys of a context.
template <class F>
void for_each_window(head_context const& ctx, F const& f) {
    for_each_queries(ctx, [&](position first, position last) {
        for (position begin = 0; begin < ctx.kv_len; ++begin) {
            for (position end = begin + 1; end <= ctx.kv_len; ++end) f(tile_window{first, last, begin, end});
        }
    });
}

struct tally {
    int kept = 0;
    int all = 0;
};

template <class Rule>
tally count_kept(Rule const& rule, head_context const& ctx, tile_window const& w) {
    tally t;
    for (position h = ctx.head_first; h < ctx.head_first + ctx.head_count; ++h) {
        row_context<position> const row{ctx, h};
        for (position q = w.q_first; q <= w.q_last; ++q) {
            for (position kv = w.kv_begin; kv < w.kv_end; ++kv) {
                t.kept += rule.keep(row, q, kv) ? 1 : 0;
                ++t.all;
            }
        }
    }
    return t;
}

// How much a shortcut promises: never a wrong answer, or always the best one.
enum class shortcut { sound, exact };

// make(ctx) gives the mask to be asked in a context of these lengths.
template <class Make>
void expect_classify_agrees(Make const& make, shortcut promise) {
    for_each_group([&](head_context const& ctx) {
        auto const rule = make(ctx);
        for_each_window(ctx, [&](tile_window const& w) {
            tally const t = count_kept(rule, ctx, w);
            coverage const exact = t.kept == 0 ? coverage::none : t.kept == t.all ? coverage::full : coverage::partial;
            coverage const said = rule.classify(ctx, w);
            if (said == coverage::partial && promise == shortcut::sound) return;
            ASSERT_EQ(said, exact) << "batch " << ctx.batch << ", heads " << ctx.head_first << "+" << ctx.head_count << ", Sq " << ctx.q_len << ", Sk "
                                   << ctx.kv_len << ", queries [" << w.q_first << ", " << w.q_last << "], keys [" << w.kv_begin << ", " << w.kv_end
                                   << "), kept " << t.kept << " of " << t.all;
        });
    });
}

template <class Make>
void expect_bounds_agree(Make const& make, shortcut promise) {
    for_each_group([&](head_context const& ctx) {
        auto const rule = make(ctx);
        for_each_queries(ctx, [&](position first, position last) {
            kv_range const r = imbrex::kv_bounds_of(rule, ctx, first, last);
            position lowest = ctx.kv_len, highest = 0;
            for (position kv = 0; kv < ctx.kv_len; ++kv) {
                if (count_kept(rule, ctx, {first, last, kv, kv + 1}).kept == 0) continue;
                lowest = std::min(lowest, kv);
                highest = kv + 1;
            }
            SCOPED_TRACE(testing::Message() << "batch " << ctx.batch << ", Sq " << ctx.q_len << ", Sk " << ctx.kv_len << ", queries [" << first << ", "
                                            << last << "]: bounds [" << r.begin << ", " << r.end << "), seen [" << lowest << ", " << highest << ")");
            ASSERT_TRUE(r.begin >= 0 && r.end <= ctx.kv_len);
            ASSERT_TRUE(lowest >= highest || (r.begin <= lowest && r.end >= highest));
            if (promise == shortcut::sound) return;
            if (lowest < highest) {
                ASSERT_TRUE(r.begin == lowest && r.end == highest);
            } else {
                ASSERT_GE(r.begin, r.end);
            }
        });
    });
}

// keep on lanes of queries and keys, with lanes of heads or one head, is keep on each lane. Lanes run on beyond the last key, as a unit's do.
template <class T, class Make>
void expect_lanes_agree(Make const& make) {
    using I = imbrex::lane_int<T>;
    using V = imbrex::lanes<I>;
    constexpr std::size_t W = V::size;
    for_each_group([&](head_context const& ctx) {
        auto const rule = make(ctx);
        position const offset = ctx.query_offset();
        for_each_queries(ctx, [&](position first, position last) {
            for (position kv = 0; kv < ctx.kv_len; ++kv) {
                std::vector<I> q(W), j(W), h(W);
                for (std::size_t i = 0; i < W; ++i) {
                    q[i] = static_cast<I>(first + static_cast<position>(i) % (last - first + 1));
                    j[i] = static_cast<I>(kv + static_cast<position>(i) % 5);
                    h[i] = static_cast<I>(ctx.head_first + static_cast<position>(i / 2) % ctx.head_count);
                }
                V const qs = V::load_unaligned(q.data()), js = V::load_unaligned(j.data()), hs = V::load_unaligned(h.data());
                auto const expect = [&](auto const& mask, auto const& q_of, auto const& j_of, auto const& h_of) {
                    std::vector<I> kept(W);
                    xsimd::select(imbrex::as_lane_mask<T>(mask), V(I(1)), V(I(0))).store_unaligned(kept.data());
                    for (std::size_t i = 0; i < W; ++i) {
                        if (j_of(i) >= ctx.kv_len) continue;
                        row_context<position> const row{ctx, h_of(i)};
                        ASSERT_EQ(kept[i] != 0, static_cast<bool>(rule.keep(row, q_of(i), j_of(i))))
                            << "lane " << i << ", batch " << ctx.batch << ", head " << h_of(i) << ", Sq " << ctx.q_len << ", Sk " << ctx.kv_len
                            << ", query " << q_of(i) - offset << ", key " << j_of(i);
                    }
                };
                auto const lane = [](std::vector<I> const& of) { return [&of](std::size_t i) { return static_cast<position>(of[i]); }; };
                auto const same = [](position p) { return [p](std::size_t) { return p; }; };
                row_context<V> const heads{ctx, hs};
                row_context<position> const one_head{ctx, ctx.head_first};
                V const one_key(static_cast<I>(kv)), one_query(static_cast<I>(first));
                expect(rule.keep(heads, qs, js), lane(q), lane(j), lane(h));
                expect(rule.keep(heads, qs, one_key), lane(q), same(kv), lane(h));
                expect(rule.keep(one_head, qs, one_key), lane(q), same(kv), same(ctx.head_first));
                expect(rule.keep(one_head, one_query, js), same(first), lane(j), same(ctx.head_first));
            }
        });
    });
}

struct promises {
    shortcut classify = shortcut::exact;
    shortcut bounds = shortcut::exact;
};

template <class Make>
void expect_consistent_made(Make const& make, promises p = {}) {
    static_assert(imbrex::score_mask<decltype(make(head_context{}))>);
    expect_classify_agrees(make, p.classify);
    expect_bounds_agree(make, p.bounds);
    expect_lanes_agree<float>(make);
    expect_lanes_agree<double>(make);
}
template <class Rule>
void expect_consistent(Rule const& rule, promises p = {}) {
    expect_consistent_made([&](head_context const&) { return rule; }, p);
}

// The picture that a mask draws of Sq x Sk, a row per query.
using rows = std::vector<std::string>;
template <class Rule>
rows picture(Rule const& rule, position q_len, position kv_len, index batch = 0, position head = 0) {
    row_context<position> const ctx{{batch, q_len, kv_len, head, 1}, head};
    rows all;
    for (position i = 0; i < q_len; ++i) {
        std::string row;
        for (position kv = 0; kv < kv_len; ++kv) row += rule.keep(ctx, ctx.query_offset() + i, kv) ? '1' : '0';
        all.push_back(row);
    }
    return all;
}

// A call of these lengths, and of as many sequences and heads as the operands are made for.
inline imbrex::call_shape call_of(head_context const& ctx) { return {batches, q_heads, ctx.q_len, ctx.kv_len}; }

template <class Rule>
imbrex::status check(Rule const& rule, imbrex::call_shape const& call) {
    return imbrex::check_rule(rule, call);
}
#define EXPECT_STATUS(call, expected_code)                                                                        \
    do {                                                                                                          \
        imbrex::status const status_of_call = (call);                                                             \
        EXPECT_EQ(status_of_call.code(), imbrex::errc::expected_code) << status_of_call.message().c_str();        \
    } while (false)

}    // namespace imbrex_test
