// One binary, all instruction sets: each that this processor has computes with its own, and agrees with a plain loop.
#include "isa_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <string_view>
#include <vector>

namespace {

using imbrex::index;
using imbrex_isa_test::isa_kernels;

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

// Causal attention with this table, held to the loop above.
void expect_right(imbrex_isa_test::isa_kernels const& kernels) {
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

    imbrex::status const s = kernels.attend(problem);
    ASSERT_TRUE(s.ok()) << s.message().c_str();
    std::vector<double> const expected = plain_attention(problem);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5) << "element " << i;
}

TEST(Isa, EachBuiltSetComputesAttentionOrSaysWhatIsMissing) {
    int run = 0;
    for (imbrex::dispatch::variant const& v : imbrex::dispatch::built<isa_kernels>()) {
        SCOPED_TRACE(imbrex::name_of(v.set));
        auto const forced = imbrex::dispatch::choose<isa_kernels>(imbrex::name_of(v.set));
        std::cout << forced.reason().c_str() << '\n';
        bool const has_all = imbrex::features_here().has(imbrex::features_of(v.set));
        if (!forced) {
            EXPECT_TRUE(!has_all || v.set == imbrex::instruction_set::amx);
            EXPECT_NE(forced.reason().view().find(has_all ? "refuses" : "lacks"), std::string_view::npos);
            continue;
        }
        EXPECT_TRUE(has_all);
        EXPECT_EQ(forced->tag, imbrex::tag_of(v.set));
        expect_right(*forced);
        ++run;
    }
    EXPECT_GE(run, 1);
}

TEST(Isa, TheBestOfThoseThatRunIsChosen) {
    auto const chosen = imbrex::dispatch::choose<isa_kernels>("");
    ASSERT_TRUE(chosen) << chosen.reason().c_str();
    std::string_view best;
    for (imbrex::dispatch::variant const& v : imbrex::dispatch::built<isa_kernels>()) {
        if (imbrex::dispatch::choose<isa_kernels>(imbrex::name_of(v.set))) best = imbrex::name_of(v.set);
    }
    EXPECT_EQ(chosen.isa(), best);
}

}    // namespace
