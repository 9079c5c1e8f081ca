// scaling.hpp
#include "imbrex/rules/scaling.hpp"

#include "transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::head_scale;
using imbrex::length_temperature;

TEST(HeadScale, IsTheFactorOfTheHead) {
    std::vector<float> const factors{1.f, 0.3f, -2.f, 7.5f};
    expect_formula(head_scale{factors}, some_context, 4,
                   [&](double s, index h, index, index) { return s * static_cast<double>(factors[static_cast<std::size_t>(h)]); });
    expect_lanes_agree(head_scale{factors}, some_context, 4);
}

TEST(HeadScale, WhatIsHiddenStaysHidden) {
    for (float const factor : {0.f, -1.f, 10.f}) {
        std::vector<float> const factors{factor};
        expect_only_hidden_is_hidden(head_scale{factors}, some_context, 1);
    }
}

TEST(HeadScale, WantsAFactorPerQueryHead) {
    std::vector<float> const factors(4);
    EXPECT_TRUE(head_scale{factors}.check({1, 4, 1, 1}).ok());
    expect_status(head_scale{factors}.check({1, 5, 1, 1}), errc::rule_too_short, rule_operand::scales, 4, 5);
}

std::vector<float> temperatures(std::size_t count) {
    std::vector<float> factors(count);
    imbrex::llama4_temperatures(0.1, factors);
    return factors;
}

// Llama 4: 1 + 0.1 ln(floor((q + 1) / step) + 1).
TEST(LengthTemperature, IsTheFormulaOfLlama4) {
    for (position const step : {1, 7, 16, 25, 60, 61, 8192}) {
        auto const factors = temperatures(static_cast<std::size_t>(60 / step + 1));
        length_temperature const rule{factors, step};
        ASSERT_TRUE(rule.check({1, 4, 50, 60}).ok());
        expect_formula_in<float>(rule, some_context, 1, [=](double s, index, index q, index) {
            return s * (1 + 0.1 * std::log(std::floor(static_cast<double>(q + 1) / step) + 1));
        }, 2);
        expect_lanes_agree(rule, some_context, 1);
    }
}

TEST(LengthTemperature, QueriesBeforeTheFirstKeyHaveTheFirstFactor) {
    std::vector<float> const factors{2.f, 3.f, 4.f};
    head_context const ctx{0, 40, 4, 0, 1};
    for (index q = ctx.query_offset(); q < ctx.kv_len; ++q) {
        EXPECT_EQ(transformed_at(length_temperature{factors, 2}, ctx, 0, 1.f, q, 0), q < 1 ? 2.f : q < 3 ? 3.f : 4.f) << q;
    }
    expect_lanes_agree(length_temperature{factors, 2}, ctx, 1);
}

TEST(LengthTemperature, WhatIsHiddenStaysHidden) {
    auto const factors = temperatures(9);
    expect_only_hidden_is_hidden(length_temperature{factors, 7}, some_context, 1);
}

TEST(LengthTemperature, WantsAFactorForEveryPosition) {
    std::vector<float> const factors(4);
    EXPECT_TRUE((length_temperature{factors, 10}.check({1, 1, 1, 39}).ok()));
    expect_status(length_temperature{factors, 10}.check({1, 1, 1, 40}), errc::rule_too_short, rule_operand::scales, 4, 5);
    expect_status(length_temperature{factors, 0}.check({1, 1, 1, 39}), errc::rule_value, rule_operand::scales, 0, 0);
}

TEST(HeadScale, ThatOverflowsIsANumberStill) {
    float const large[] = {3e38f}, none[] = {0.f};
    auto const rule = imbrex::head_scale{large} | imbrex::head_scale{none};
    imbrex::row_context<imbrex::position> const ctx{some_context, 0};
    EXPECT_EQ(imbrex::transformed(rule, ctx, 10.f, 0, 0), 0.f);
    using S = imbrex::lanes<float>;
    EXPECT_TRUE(xsimd::all(imbrex::transformed(rule, ctx, S(10.f), 0, 0) == S(0.f)));
}

}    // namespace
}    // namespace imbrex_test
