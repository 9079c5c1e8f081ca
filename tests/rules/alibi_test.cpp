// alibi.hpp
#include "imbrex/rules/alibi.hpp"

#include "transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::alibi;

std::vector<float> slopes_for(index heads) {
    std::vector<float> slopes(static_cast<std::size_t>(heads));
    imbrex::alibi_slopes(heads, slopes);
    return slopes;
}

TEST(Alibi, IsTheSlopeTimesTheDistance) {
    std::vector<float> const slopes{0.5f, 0.1f, 0.003f, 2.f};
    expect_formula(alibi{slopes}, some_context, 4, [&](double s, index h, index q, index kv) {
        return s - static_cast<double>(slopes[static_cast<std::size_t>(h)]) * static_cast<double>(std::abs(q - kv));
    });
}

TEST(Alibi, LanesAreWhatNumbersAre) { expect_lanes_agree(alibi{slopes_for(6)}, some_context, 6); }

TEST(Alibi, WhatIsHiddenStaysHidden) {
    std::vector<float> const slopes{3e38f};
    expect_only_hidden_is_hidden(alibi{slopes}, some_context, 1);
}

TEST(Alibi, MoreQueriesThanKeysStandBeforeTheFirstKey) {
    std::vector<float> const slopes{1.f};
    head_context const ctx{0, 9, 4, 0, 1};
    EXPECT_EQ(transformed_at(alibi{slopes}, ctx, 0, 0.f, ctx.query_offset(), 3), -8.f);
}

TEST(Alibi, WantsASlopePerQueryHead) {
    std::vector<float> const slopes(8);
    EXPECT_TRUE(alibi{slopes}.check({1, 8, 1, 1}).ok());
    EXPECT_TRUE(alibi{slopes}.check({1, 7, 1, 1}).ok());
    expect_status(alibi{slopes}.check({1, 9, 1, 1}), errc::rule_too_short, rule_operand::slopes, 8, 9);
}

// The paper: for 8 heads the geometric sequence 1/2, 1/4, ... 1/256.
TEST(AlibiSlopes, EightHeadsHaveThePapersSequence) {
    EXPECT_EQ(slopes_for(8), (std::vector<float>{0x1p-1f, 0x1p-2f, 0x1p-3f, 0x1p-4f, 0x1p-5f, 0x1p-6f, 0x1p-7f, 0x1p-8f}));
}

// 16 heads, as printed in the paper: 2^-0.5, 2^-1, ... 2^-8.
TEST(AlibiSlopes, SixteenHeadsInterpolateThem) {
    auto const slopes = slopes_for(16);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_FLOAT_EQ(slopes[i], std::pow(2.f, -0.5f * static_cast<float>(i + 1))) << i;
}

// The authors' code, in which any number of heads has those of the power of two below, then every other one of the power above.
std::vector<double> authors_slopes(index n) {
    std::size_t const count = static_cast<std::size_t>(n);
    double const log = std::log2(static_cast<double>(n));
    std::vector<double> slopes;
    if (log == std::floor(log)) {
        double const start = std::pow(2.0, -std::pow(2.0, -(log - 3)));
        for (std::size_t i = 0; i < count; ++i) slopes.push_back(std::pow(start, static_cast<double>(i + 1)));
        return slopes;
    }
    index const below = index{1} << static_cast<int>(std::floor(log));
    slopes = authors_slopes(below);
    auto const above = authors_slopes(2 * below);
    for (std::size_t i = 0; slopes.size() < count; i += 2) slopes.push_back(above[i]);
    return slopes;
}

TEST(AlibiSlopes, AnyNumberOfHeadsHasTheAuthorsSlopes) {
    for (index heads = 1; heads <= 130; ++heads) {
        auto const ours = slopes_for(heads);
        auto const right = authors_slopes(heads);
        ASSERT_EQ(ours.size(), right.size());
        for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_FLOAT_EQ(ours[i], static_cast<float>(right[i])) << heads << " heads, " << i;
    }
}

// Known fault 28.
TEST(AlibiSlopes, FortyHeadsHaveThoseOf32AndEightInBetween) {
    auto const slopes = slopes_for(40), half = slopes_for(32);
    EXPECT_TRUE(std::equal(half.begin(), half.end(), slopes.begin()));
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_FLOAT_EQ(slopes[32 + i], std::exp2(-0.125f - 0.25f * static_cast<float>(i))) << i;
    }
    auto const twelve = slopes_for(12);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(twelve[8 + i], std::exp2(-0.5f - static_cast<float>(i))) << i;
}

}    // namespace
}    // namespace imbrex_test
