// One binary, two instruction sets: each entry point computes with its own, and both agree with a plain loop.
#include "isa_entry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
#include <vector>

namespace {

using imbrex::index;

// Causal, aligned at the bottom right; f64 throughout. All tensors (1, tokens, heads, head_dim), contiguous.
std::vector<double> plain_attention(imbrex_isa_test::problem const& p) {
    std::vector<double> out(static_cast<std::size_t>(p.q.shape.elements()));
    index const head_dim = p.q.shape.head_dim, group = p.q.shape.heads / p.k.shape.heads;
    for (index token = 0; token < p.q.shape.tokens; ++token) {
        index const seen = p.k.shape.tokens - p.q.shape.tokens + token + 1;
        for (index head = 0; head < p.q.shape.heads; ++head) {
            std::vector<double> weights;
            for (index j = 0; j < seen; ++j) {
                double score = 0;
                for (index d = 0; d < head_dim; ++d) score += double{p.q.row(0, token, head)[d]} * p.k.row(0, j, head / group)[d];
                weights.push_back(score / std::sqrt(static_cast<double>(head_dim)));
            }
            double const highest = *std::ranges::max_element(weights);
            double sum = 0;
            for (double& w : weights) sum += w = std::exp(w - highest);
            double* const row = &out[static_cast<std::size_t>(p.out.row(0, token, head) - p.out.data)];
            for (index j = 0; j < seen; ++j) {
                for (index d = 0; d < head_dim; ++d) {
                    row[d] += weights[static_cast<std::size_t>(j)] / sum * p.v.row(0, j, head / group)[d];
                }
            }
        }
    }
    return out;
}

class Isa : public testing::Test {
protected:
    using entry = void (*)(imbrex_isa_test::problem const&, imbrex::status&);

    static void expect_right(entry attention) {
        imbrex::shape4 const q_shape{.batch = 1, .tokens = 37, .heads = 4, .head_dim = 48};
        imbrex::shape4 const kv_shape{.batch = 1, .tokens = 150, .heads = 2, .head_dim = 48};
        std::mt19937 random{20260101};
        std::normal_distribution<float> normal;
        auto const filled = [&](imbrex::shape4 shape) {
            std::vector<float> values(static_cast<std::size_t>(shape.elements()));
            std::ranges::generate(values, [&] { return normal(random); });
            return values;
        };
        std::vector<float> const q = filled(q_shape), k = filled(kv_shape), v = filled(kv_shape);
        std::vector<float> out(q.size(), -1.f);
        imbrex_isa_test::problem const problem{.q = imbrex::bshd(q.data(), q_shape),
                                               .k = imbrex::bshd(k.data(), kv_shape),
                                               .v = imbrex::bshd(v.data(), kv_shape),
                                               .out = imbrex::bshd(out.data(), q_shape)};

        imbrex::status s;
        attention(problem, s);
        ASSERT_TRUE(s.ok()) << s.message().c_str();
        std::vector<double> const expected = plain_attention(problem);
        for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5) << "element " << i;
    }
};

TEST_F(Isa, Avx2ObjectComputesAttention) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor lacks AVX2 or FMA";
    EXPECT_EQ(std::string_view{imbrex_isa_test_avx2_name()}, "avx2");
    expect_right(imbrex_isa_test_avx2_attention);
}

TEST_F(Isa, Avx512ObjectComputesAttention) {
    for (bool const supported : {__builtin_cpu_supports("avx512f") != 0, __builtin_cpu_supports("avx512bw") != 0,
                                 __builtin_cpu_supports("avx512dq") != 0, __builtin_cpu_supports("avx512vl") != 0}) {
        if (!supported) GTEST_SKIP() << "this processor lacks AVX-512 F, BW, DQ or VL";
    }
    EXPECT_EQ(std::string_view{imbrex_isa_test_avx512_name()}, "avx512");
    expect_right(imbrex_isa_test_avx512_attention);
}

}    // namespace
