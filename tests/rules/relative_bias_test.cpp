// relative_bias.hpp
#include "imbrex/rules/relative_bias.hpp"

#include "transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::relative_bias;
using imbrex::t5_bucket;
using imbrex::t5_direction;

std::vector<float> numbers(index count) {
    std::mt19937 random{31};
    std::normal_distribution<float> normal;
    std::vector<float> table(static_cast<std::size_t>(count));
    for (float& x : table) x = normal(random);
    return table;
}

auto formula(std::vector<float> const& table, index heads, index most) {
    return [=](double s, index h, index q, index kv) {
        index const column = std::min(most, std::max(-most, kv - q)) + most;
        return s + static_cast<double>(table[static_cast<std::size_t>((heads == 1 ? 0 : h) * (2 * most + 1) + column)]);
    };
}

TEST(RelativeBias, IsTheTablesEntryOfTheHeldDistance) {
    for (position const most : {0, 3, 70}) {
        for (index const heads : {1, 4}) {
            auto const table = numbers(heads * (2 * most + 1));
            expect_formula(relative_bias{table, heads, most}, some_context, 4, formula(table, heads, most));
        }
    }
}

TEST(RelativeBias, LanesAreWhatNumbersAre) {
    for (position const most : {0, 3, 20, 70}) {
        auto const table = numbers(4 * (2 * most + 1));
        expect_lanes_agree(relative_bias{table, 4, most}, some_context, 4);
    }
}

TEST(RelativeBias, WhatIsHiddenStaysHidden) {
    std::vector<float> const table(7, std::numeric_limits<float>::lowest());
    expect_only_hidden_is_hidden(relative_bias{table, 1, 3}, some_context, 2);
}

TEST(RelativeBias, WantsATableOfEveryHeadOrOneThatServesAll) {
    auto const table = numbers(4 * 7);
    EXPECT_TRUE((relative_bias{table, 4, 3}.check({1, 4, 9, 9}).ok()));
    EXPECT_TRUE((relative_bias{table, 1, 13}.check({1, 4, 9, 9}).ok()));
    expect_status(relative_bias{table, 4, 4}.check({1, 4, 9, 9}), errc::rule_too_short, rule_operand::relative_bias, 28, 36);
    expect_status(relative_bias{table, 4, 3}.check({1, 5, 9, 9}), errc::rule_axis, 1, 4, 5);
    expect_status(relative_bias{table, 4, -1}.check({1, 4, 9, 9}), errc::rule_value, rule_operand::relative_bias, -1, 0);
}

// From the published formula with 32 buckets up to distance 128, by hand. Bidirectional: 16 a side, 8 of them exact, and bucket
// 8 + k begins at 8 16^(k / 8). Unidirectional: 16 exact, and bucket 16 + k begins at 16 8^(k / 16).
struct first_of_bucket {
    index distance, bucket;
};

TEST(T5Bucket, BidirectionalBucketsBeginWhereTheFormulaSays) {
    first_of_bucket const buckets[] = {{0, 0},  {1, 1},  {2, 2},   {3, 3},   {4, 4},   {5, 5},   {6, 6},   {7, 7},
                                       {8, 8},  {12, 9}, {16, 10}, {23, 11}, {32, 12}, {46, 13}, {64, 14}, {91, 15}};
    for (std::size_t i = 0; i < std::size(buckets); ++i) {
        index const last = i + 1 < std::size(buckets) ? buckets[i + 1].distance : 1000;
        for (index d = buckets[i].distance; d < last; ++d) {
            ASSERT_EQ(t5_bucket(-d, 32, 128, t5_direction::bidirectional), buckets[i].bucket) << d;
            if (d > 0) { ASSERT_EQ(t5_bucket(d, 32, 128, t5_direction::bidirectional), 16 + buckets[i].bucket) << d; }
        }
    }
}

TEST(T5Bucket, UnidirectionalBucketsBeginWhereTheFormulaSays) {
    for (index d = 0; d < 16; ++d) ASSERT_EQ(t5_bucket(-d, 32, 128, t5_direction::unidirectional), d);
    index const first[] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113, 1000};
    for (index k = 0; k < 16; ++k) {
        for (index d = first[k]; d < first[k + 1]; ++d) {
            ASSERT_EQ(t5_bucket(-d, 32, 128, t5_direction::unidirectional), 16 + k) << d;
        }
    }
    for (index d = 1; d < 200; ++d) ASSERT_EQ(t5_bucket(d, 32, 128, t5_direction::unidirectional), 0) << "keys after the query";
}

TEST(T5RelativeBias, ExpandsTheWeightsOfEachBucket) {
    constexpr index heads = 3, buckets = 32;
    constexpr position most = 128;
    auto const weights = numbers(buckets * heads);
    for (t5_direction const direction : {t5_direction::bidirectional, t5_direction::unidirectional}) {
        std::vector<float> table(static_cast<std::size_t>(heads * (2 * most + 1)));
        relative_bias const rule = imbrex::t5_relative_bias(weights, heads, buckets, most, direction, table);
        ASSERT_TRUE(rule.check({1, heads, 400, 400}).ok());
        head_context const ctx{0, 400, 400};
        for (index h = 0; h < heads; ++h) {
            for (index kv = 0; kv < 400; ++kv) {
                index const bucket = t5_bucket(kv - 200, buckets, most, direction);
                ASSERT_EQ(transformed_at(rule, ctx, h, 0.f, 200, kv), weights[static_cast<std::size_t>(bucket * heads + h)]) << kv;
            }
        }
    }
}

}    // namespace
}    // namespace imbrex_test
