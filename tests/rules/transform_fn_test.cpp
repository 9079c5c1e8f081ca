// transform_fn.hpp
#include "imbrex/rules/transform_fn.hpp"

#include "transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::as_score;
using imbrex::gather;
using imbrex::score_stage;
using imbrex::select;
using imbrex::transform_fn;

TEST(TransformFn, IsTheLambdaOnNumbersAndLanes) {
    std::vector<float> const slopes{0.5f, 0.25f, 2.f};
    auto const rule = transform_fn([slope = slopes.data()](auto const& ctx, auto const& s, auto const& q, auto const& kv) {
        using S = std::remove_cvref_t<decltype(s)>;
        return s + gather<S>(slope, ctx.head()) * as_score<S>(q - kv);
    });
    expect_formula(rule, some_context, 3, [&](double s, index h, index q, index kv) {
        return s + static_cast<double>(slopes[static_cast<std::size_t>(h)]) * static_cast<double>(q - kv);
    });
    expect_lanes_agree(rule, some_context, 3);    // products of these slopes are exact
}

TEST(TransformFn, MayHideKeys) {
    auto const rule = transform_fn([](auto const&, auto const& s, auto const& q, auto const& kv) {
        using S = std::remove_cvref_t<decltype(s)>;
        return select(kv <= q, s, S(-infinite));
    });
    EXPECT_EQ(transformed_at(rule, some_context, 0, 3.f, 20, 20), 3.f);
    EXPECT_EQ(transformed_at(rule, some_context, 0, 3.f, 20, 21), -infinite);
    expect_lanes_agree(rule, some_context, 1);
    EXPECT_EQ(rule.classify(some_context, {20, 21, 0, 5}), coverage::partial);
}

TEST(TransformFn, WhatIsHiddenStaysHiddenWhateverTheLambdaSays) {
    auto const rule = transform_fn([](auto const&, auto const& s, auto const&, auto const&) { return s * std::remove_cvref_t<decltype(s)>(0); });
    EXPECT_EQ(transformed_at(rule, some_context, 0, -infinite, 20, 20), -infinite);
    EXPECT_EQ(transformed_at(rule, some_context, 0, 2.f, 20, 20), 0.f);
    using S = imbrex::lanes<float>;
    using I = imbrex::lanes<std::int32_t>;
    imbrex::row_context<imbrex::position> const ctx{some_context, 0};
    EXPECT_TRUE(xsimd::all(imbrex::transformed(rule, ctx, S(-infinite), I(20), I(20)) == S(-infinite)));
}

TEST(TransformFn, SelectTakesMasksOverScores) {
    using S = imbrex::lanes<float>;
    EXPECT_TRUE(xsimd::all(imbrex::select(S(1) < S(2), S(3), S(4)) == S(3)));
    EXPECT_TRUE(xsimd::all(imbrex::select(S(2) < S(1), S(3), S(4)) == S(4)));
}

TEST(TransformFn, TakesEffectWithBiasesUnlessToldOtherwise) {
    auto const same = [](auto const&, auto const& s, auto const&, auto const&) { return s; };
    static_assert(decltype(transform_fn(same))::stage == score_stage::bias);
    static_assert(decltype(transform_fn<score_stage::scale>(same))::stage == score_stage::scale);
    static_assert(decltype(transform_fn<score_stage::cap>(same))::stage == score_stage::cap);
    static_assert(imbrex::score_rule<decltype(transform_fn(same))>);
}

}    // namespace
}    // namespace imbrex_test
