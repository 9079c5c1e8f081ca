// softcap.hpp
#include "imbrex/rules/softcap.hpp"

#include "transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::softcap;

TEST(Softcap, IsCapTanhOfTheScoreOverCap) {
    for (double const cap : {0.25, 1.0, 30.0, 50.0}) {
        expect_formula(softcap{cap}, some_context, 1, [=](double s, index, index, index) { return cap * std::tanh(s / cap); }, 8);
    }
}

TEST(Softcap, LanesAreWhatNumbersAre) { expect_lanes_agree(softcap{2.5}, some_context, 1); }

TEST(Softcap, WhatIsHiddenStaysHidden) { expect_only_hidden_is_hidden(softcap{30}, some_context, 1); }

TEST(Softcap, HoldsAnyScoreWithinTheCap) {
    for (float const s : {1e4f, 3e38f, infinite}) {
        EXPECT_EQ(transformed_at(softcap{50}, some_context, 0, s, 10, 0), 50.f);
        EXPECT_EQ(transformed_at(softcap{50}, some_context, 0, std::max(-s, std::numeric_limits<float>::lowest()), 10, 0), -50.f);
    }
}

TEST(Softcap, TheCapIsFiniteAndPositive) {
    for (double const cap : {0x1p-126, 1.0, 50.0, 0x1p126}) EXPECT_TRUE(softcap{cap}.check({1, 1, 1, 1}).ok()) << cap;
    expect_status(softcap{0}.check({1, 1, 1, 1}), errc::rule_value, rule_operand::softcap, 0, 0);
    expect_status(softcap{-30}.check({1, 1, 1, 1}), errc::rule_value, rule_operand::softcap, -30, 0);
    expect_status(softcap{std::nan("")}.check({1, 1, 1, 1}), errc::rule_value, rule_operand::softcap, imbrex::not_a_number, 0);
    expect_status(softcap{HUGE_VAL}.check({1, 1, 1, 1}), errc::rule_value, rule_operand::softcap, 1000000000000000000, 0);
    expect_status(softcap{1e-300}.check({1, 1, 1, 1}), errc::rule_value, rule_operand::softcap, 0, 0);
}

TEST(Softcap, ComesAfterScalingsAndBeforeBiases) { static_assert(softcap::stage == imbrex::score_stage::cap); }

}    // namespace
}    // namespace imbrex_test
