// Accuracy where it is hard in f32: many keys, large scores, one key that outweighs all; and the scale. The accuracy rule is in
// attention_cases.hpp.
#include <limits>
#include <numeric>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;

class AttentionAccuracy : public Seeded, public testing::WithParamInterface<index> {};    // query tokens: narrow and wide unit

TEST_P(AttentionAccuracy, IsWithinFourMillionthsOfTheLargestValueUpTo8192Keys) {
    for (index const head_dim : {16, 64, 128, 256}) {
        for (index const kv_tokens : {1024, 8192}) {
            attention_case const c{.q_tokens = GetParam(), .kv_tokens = kv_tokens, .head_dim = head_dim, .sees = rule::bottom_right};
            SCOPED_TRACE(testing::Message() << c);
            call_tensors<f32> const t{c};
            fill(t);
            ASSERT_OK(planned(t, c.sees));
            expect_accurate(t, visibility_of(c), accuracy::strict);
        }
    }
}

TEST_P(AttentionAccuracy, OneKeyThatOutweighsAllIsFoundInAnyTile) {
    attention_case const c{.q_tokens = GetParam(), .kv_tokens = 517, .q_heads = 2, .head_dim = 48};
    for (index const key : {0, 63, 64, 300, 511, 512, 516}) {
        SCOPED_TRACE(testing::Message() << "key " << key);
        call_tensors<f32> const t{c};
        fill(t);
        for (index d = 0; d < c.head_dim; ++d) {    // a score of about 200 against the others' N(0, 1)
            t.k.view.row(0, key, 0)[d] = 30;
            for_each_row(t.q.view, [&](index, index, index, float* row) { row[d] = 1 + 0.1f * row[d]; });
        }
        ASSERT_OK(planned(t, c.sees));
        expect_accurate(t, visibility_of(c), accuracy::strict);
        for_each_row(t.out.view, [&](index, index, index, float const* row) {
            for (index d = 0; d < c.head_dim; ++d) EXPECT_EQ(row[d], t.v.view.row(0, key, 0)[d]);
        });
    }
}

TEST_P(AttentionAccuracy, SurvivesInputsTimesTwenty) {
    for (index const head_dim : {32, 128, 256}) {
        index const heads = GetParam() < 10 ? 200 : 20;
        attention_case const c{.q_tokens = GetParam(), .kv_tokens = 130, .q_heads = heads, .kv_heads = heads, .head_dim = head_dim, .sees = rule::full};
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<f32> const t{c};
        fill_with_near_ties(t, 20);
        ASSERT_OK(planned(t, c.sees));
        expect_accurate(t, visibility_of(c));
    }
}

// Every score is +score or -score, so the output is the mean of the values of the former, and the log-sum-exp is known.
void expect_mean_of_the_best(index q_tokens, index head_dim, float query, float key, double scale) {
    attention_case const c{.q_tokens = q_tokens, .kv_tokens = 40, .head_dim = head_dim};
    SCOPED_TRACE(testing::Message() << c << ", " << query << " * " << key << ", scale " << scale);
    call_tensors<f32> const t{c};
    std::ranges::fill(t.q.memory, query);
    for (index j = 0; j < 40; ++j) {
        std::fill_n(t.k.view.row(0, j, 0), head_dim, j % 4 == 0 ? key : -key);
        std::fill_n(t.v.view.row(0, j, 0), head_dim, static_cast<float>(j));
    }
    ASSERT_OK(planned(t, c.sees, {.scale = scale}));
    double const score = static_cast<double>(head_dim) * double{query} * double{key} * scale;
    bool const best_is_key = score > 0;
    double const mean = best_is_key ? 18 : 20;    // of 0, 4, 8 .. 36; of the other thirty
    for (float const x : t.out.memory) EXPECT_NEAR(x, mean, 1e-5 * mean);
    double const lse = std::abs(score) + std::log(best_is_key ? 10.0 : 30.0);
    for (float const x : t.lse) EXPECT_NEAR(x, lse, 1e-5 * lse);
}

TEST_P(AttentionAccuracy, ScoresOfTenThousandNeitherOverflowNorVanish) {
    for (float const sign : {1.0f, -1.0f}) {
        expect_mean_of_the_best(GetParam(), 1, sign * 100, 100, 1);
        expect_mean_of_the_best(GetParam(), 64, sign * 100, 12.5f, 0.125);
        expect_mean_of_the_best(GetParam(), 64, sign * 1e4f, 1e4f, 1e4 / 64 / 1e8);
    }
}

TEST_P(AttentionAccuracy, ScoresUpToTheLargestFloatNeitherOverflowNorVanish) {
    for (float const sign : {1.0f, -1.0f}) {
        for (index const head_dim : {2, 4, 64, 256}) {
            auto const n = static_cast<float>(head_dim);
            expect_mean_of_the_best(GetParam(), head_dim, sign * 1e19f, 3e19f / n, 1 / static_cast<double>(head_dim));    // 3e38 / D each
            expect_mean_of_the_best(GetParam(), head_dim, sign * 1e19f, 2e19f / n, 1);                                    // 2e38 in all
            expect_mean_of_the_best(GetParam(), head_dim, sign * 1e19f, 3e19f / n, 1 / std::sqrt(static_cast<double>(head_dim)));
        }
    }
}

// The running maximum is one of the scores, and not the 0 of a lane or a row that holds none.
TEST_P(AttentionAccuracy, ScoresFarBelowZeroCountAsMuchAsAnyOthers) {
    for (index const kv_tokens : {1, 2, 3, 5, 15, 17, 63, 65, 130}) {
        attention_case const c{.q_tokens = GetParam(), .kv_tokens = kv_tokens, .q_heads = 3, .kv_heads = 3, .head_dim = 20, .sees = rule::bottom_right};
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<f32> const t{c};
        fill(t, 0.125);
        for (float& x : t.q.memory) x -= 8;
        for (float& x : t.k.memory) x += 8;
        ASSERT_OK(planned(t, c.sees));
        largest_errors e;    // of scores of about -290, each to an ulp of 3e-5 and the sum of twenty roundings
        measure(t, visibility_of(c), 1 / std::sqrt(20.0), e);
        EXPECT_LE(e.ours, 2e-4 * largest(t.v.view));
        EXPECT_LE(e.lse, 1e-5);
    }
}

// Finite scores are numbers, however large: equal ones give the mean of the values. In log2 units these are beyond the largest
// float, where the kernel may hold them.
TEST_P(AttentionAccuracy, EqualScoresOf3e38GiveTheMeanOfTheValues) {
    for (float const sign : {1.0f, -1.0f}) {
        attention_case const c{.q_tokens = GetParam(), .kv_tokens = 5, .head_dim = 1};
        SCOPED_TRACE(sign);
        call_tensors<f32> const t{c};
        std::ranges::fill(t.q.memory, sign * 1e19f);
        std::ranges::fill(t.k.memory, 3e19f);
        std::iota(t.v.memory.begin(), t.v.memory.end(), 0.0f);
        ASSERT_OK(planned(t, c.sees, {.scale = 1}));
        for (float const x : t.out.memory) EXPECT_NEAR(x, 2, 1e-5);
        for (float const x : t.lse) EXPECT_TRUE(std::isfinite(x) && sign * x > 2e38f) << x;
    }
}

TEST_P(AttentionAccuracy, ScaleReplacesTheDefaultOneAndMayBeZeroOrNegative) {
    attention_case const c{.q_tokens = GetParam(), .kv_tokens = 150, .q_heads = 2, .head_dim = 40, .sees = rule::top_left};
    for (double const scale : {1 / std::sqrt(40.0), 1.0, 0.01, 0.0, -0.3, 1e-30}) {
        SCOPED_TRACE(testing::Message() << "scale " << scale);
        call_tensors<f32> const t{c};
        fill(t);
        ASSERT_OK(planned(t, c.sees, {.scale = scale}));
        expect_accurate(t, visibility_of(c), accuracy::rule, scale);
    }
}

TEST_P(AttentionAccuracy, TheDefaultScaleIsOneOverTheRootOfHeadDim) {
    attention_case const c{.q_tokens = GetParam(), .kv_tokens = 50, .head_dim = 24, .head_dim_v = 7};
    call_tensors<f32> const t{c};
    fill(t);
    ASSERT_OK(planned(t, c.sees, {.scale = 1 / std::sqrt(24.0)}));
    tensor<float> const out{c.out(), c.memory};
    ASSERT_OK(planned(t.q.view, t.kv(), out.view, imbrex::full{}));
    EXPECT_TRUE(same_bits(t.out.memory, out.memory));
}

INSTANTIATE_TEST_SUITE_P(Queries, AttentionAccuracy, testing::Values(1, 4, 75), testing::PrintToStringParamName());

}    // namespace
}    // namespace imbrex_test
