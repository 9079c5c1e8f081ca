// What the tests of transforms share: a transform against its formula in f64, and on lanes against itself on numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../simd_lanes.hpp"
#include "imbrex/imbrex.hpp"

namespace imbrex_test {

using imbrex::call_shape;
using imbrex::coverage;
using imbrex::errc;
using imbrex::head_context;
using imbrex::index;
using imbrex::position;
using imbrex::row_context;
using imbrex::rule_operand;
using imbrex::status;

inline constexpr float infinite = std::numeric_limits<float>::infinity();

// Sequence 1 of a batch: 50 queries on 60 keys. Query heads share a kv head two by two.
inline constexpr head_context some_context{1, 50, 60, 0, 2};

// The transform of one score, by numbers.
template <class T, class R>
T transformed_at(R const& rule, head_context const& ctx, index head, T s, index q, index kv) {
    row_context<position> const own{ctx, static_cast<position>(head)};
    return rule.transform(own, s, static_cast<position>(q), static_cast<position>(kv));
}

// f(head, q, kv) for every query and key of the context.
template <class F>
void for_each_place(head_context const& ctx, index heads, F const& f) {
    for (index h = 0; h < heads; ++h) {
        for (index q = ctx.query_offset(); q < ctx.kv_len; ++q) {
            for (index kv = 0; kv < ctx.kv_len; ++kv) f(h, q, kv);
        }
    }
}

// rule(s) is exact(s, head, q, kv), up to `roundings` of the largest term.
template <class T, class R, class F>
void expect_formula_in(R const& rule, head_context const& ctx, index heads, F const& exact, double roundings) {
    std::mt19937 random{17};
    std::normal_distribution<T> normal{T(0), T(3)};
    for_each_place(ctx, heads, [&](index h, index q, index kv) {
        T const s = normal(random);
        double const wide = static_cast<double>(s), right = exact(wide, h, q, kv);
        double const ours = static_cast<double>(transformed_at(rule, ctx, h, s, q, kv));
        if (right == ours) return;
        double const size = std::max({std::abs(wide), std::abs(right), std::abs(right - wide)});
        ASSERT_LE(std::abs(ours - right), roundings * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2 * size)
            << "s " << s << ", head " << h << ", query at " << q << ", key " << kv << ": " << ours << " is not " << right;
    });
}
template <class R, class F>
void expect_formula(R const& rule, head_context const& ctx, index heads, F const& exact, double roundings = 2) {
    expect_formula_in<float>(rule, ctx, heads, exact, roundings);
    expect_formula_in<double>(rule, ctx, heads, exact, roundings);
}

// How a unit asks: queries side by side with one key, pairs of queries with some keys, the last query repeated; or anything.
enum class lane_order { one_key, two_queries, repeated_last, any };

template <class T>
struct lane_places {
    using I = lane_int<T>;
    static constexpr std::size_t W = static_cast<std::size_t>(lane_count<T>);
    std::vector<I> q = std::vector<I>(W), kv = std::vector<I>(W), head = std::vector<I>(W);

    lane_places(lane_order order, head_context const& ctx, index heads, std::mt19937& random) {
        auto const below = [&](index n) { return static_cast<I>(random() % static_cast<std::uint32_t>(n)); };
        I const offset = static_cast<I>(ctx.query_offset()), first_q = below(ctx.q_len), first_kv = below(ctx.kv_len);
        for (std::size_t lane = 0; lane < W; ++lane) {
            I const n = static_cast<I>(lane);
            I const fitting = static_cast<I>(std::min<index>(first_q, ctx.q_len - lane_count<T>));
            q[lane] = order == lane_order::one_key         ? fitting + n
                      : order == lane_order::two_queries   ? first_q / 2 * 2 + n % 2
                      : order == lane_order::repeated_last ? std::min<I>(first_q + n, static_cast<I>(ctx.q_len - 1))
                                                           : below(ctx.q_len);
            q[lane] = std::min<I>(q[lane], static_cast<I>(ctx.q_len - 1)) + offset;
            kv[lane] = order == lane_order::any           ? below(ctx.kv_len)
                       : order == lane_order::two_queries ? std::min<I>(first_kv + n / 2, static_cast<I>(ctx.kv_len - 1))
                                                          : first_kv;
            head[lane] = below(heads);
        }
    }
};

// Each lane is what the same numbers give, bit for bit, with the head as a number or as lanes.
template <class T, class R>
void expect_lanes_agree_in(R const& rule, head_context const& ctx, index heads) {
    using I = lanes<lane_int<T>>;
    constexpr std::size_t W = lane_places<T>::W;
    std::mt19937 random{23};
    std::normal_distribution<T> normal{T(0), T(3)};
    for (int round = 0; round < 2000; ++round) {
        lane_order const order{round % 4};
        lane_places<T> const at{order, ctx, heads, random};
        std::vector<T> s(W);
        for (T& x : s) x = round % 10 == 9 && random() % 4 == 0 ? -std::numeric_limits<T>::infinity() : normal(random);
        lanes<T> const scores = lanes<T>::load_unaligned(s.data());
        I const q = I::load_unaligned(at.q.data()), kv = I::load_unaligned(at.kv.data()), head = I::load_unaligned(at.head.data());
        index const one_head = at.head[0];
        auto const by_lanes = lanes_of<T>(rule.transform(row_context<I>{ctx, head}, scores, q, kv));
        auto const by_one = lanes_of<T>(rule.transform(row_context<position>{ctx, static_cast<position>(one_head)}, scores, q, kv));
        for (std::size_t i = 0; i < W; ++i) {
            T const own = transformed_at(rule, ctx, at.head[i], s[i], at.q[i], at.kv[i]);
            T const first = transformed_at(rule, ctx, one_head, s[i], at.q[i], at.kv[i]);
            ASSERT_TRUE(same(by_lanes[i], own)) << "lane " << i << " is " << by_lanes[i] << ", alone " << own << "; order " << round % 4;
            ASSERT_TRUE(same(by_one[i], first)) << "lane " << i << " is " << by_one[i] << ", alone " << first << "; order " << round % 4;
        }
    }
}
template <class R>
void expect_lanes_agree(R const& rule, head_context const& ctx, index heads) {
    expect_lanes_agree_in<float>(rule, ctx, heads);
    expect_lanes_agree_in<double>(rule, ctx, heads);
}

// Only -inf hides: it stays -inf, and the lowest finite score stays finite.
template <class T, class R>
void expect_only_hidden_is_hidden_in(R const& rule, head_context const& ctx, index heads) {
    T const hidden = -std::numeric_limits<T>::infinity(), lowest = std::numeric_limits<T>::lowest();
    for_each_place(ctx, heads, [&](index h, index q, index kv) {
        ASSERT_EQ(transformed_at(rule, ctx, h, hidden, q, kv), hidden);
        ASSERT_GE(transformed_at(rule, ctx, h, lowest, q, kv), lowest);
        ASSERT_TRUE(std::isnan(transformed_at(rule, ctx, h, std::numeric_limits<T>::quiet_NaN(), q, kv)));
    });
}
template <class R>
void expect_only_hidden_is_hidden(R const& rule, head_context const& ctx, index heads) {
    expect_only_hidden_is_hidden_in<float>(rule, ctx, heads);
    expect_only_hidden_is_hidden_in<double>(rule, ctx, heads);
}

inline void expect_status(status const& s, errc code, std::int64_t a, std::int64_t b, std::int64_t c) {
    EXPECT_EQ(s.code(), code) << s.message().c_str();
    EXPECT_EQ(s.value(0), a) << s.message().c_str();
    EXPECT_EQ(s.value(1), b) << s.message().c_str();
    EXPECT_EQ(s.value(2), c) << s.message().c_str();
}
inline void expect_status(status const& s, errc code, rule_operand operand, std::int64_t b, std::int64_t c) {
    expect_status(s, code, static_cast<std::int64_t>(operand), b, c);
}

}    // namespace imbrex_test
