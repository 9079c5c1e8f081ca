// Every transform and sink in every precision; and the order of a chain does not matter.
#include "attention_transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::precision;

template <class P>
class AttentionTransformsIn : public AttentionTransforms {};
using other_precisions = testing::Types<precision<double>, precision<bf16>, precision<f16>, precision<float, bf16, bf16, float>>;
TYPED_TEST_SUITE(AttentionTransformsIn, other_precisions);

TYPED_TEST(AttentionTransformsIn, AreRightOneByOneAndTogether) {
    this->template expect_right<TypeParam>({.scales = scaling::head_scale});
    this->template expect_right<TypeParam>({.scales = scaling::length_temperature});
    this->template expect_right<TypeParam>({.cap = 3});
    this->template expect_right<TypeParam>({.sink = true});
    for (bias const form : {bias::alibi, bias::relative, bias::tensor_f32, bias::tensor_bf16, bias::tensor_f16, bias::tensor_f64, bias::function}) {
        this->template expect_right<TypeParam>({.adds = form});
    }
    this->template expect_right<TypeParam>({.scales = scaling::head_scale, .cap = 2, .adds = bias::tensor_bf16, .causal = true, .sink = true});
}

TEST_F(AttentionTransforms, ScoresBelowAllFloatsAreNoEmptyRow) {
    rule_case const r{.adds = bias::tensor_f64};
    for_each_unit<precision<double>>(r, [&](call_tensors<precision<double>> const& t, attention_case const& c) {
        std::fill(tensor_f64.begin(), tensor_f64.end(), -1e300);
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of(r, c), with_lse(t)));
        for (float const lse : t.lse) ASSERT_EQ(lse, -std::numeric_limits<float>::max());
    });
}

TEST_F(AttentionTransforms, TheOrderOfTheChainDoesNotMatter) {
    std::vector<bf16> const sinks{bf16(0.5f), bf16(2.f), bf16(-3.f), bf16(6.f)};
    imbrex::softcap const cap{3};
    imbrex::alibi const distance{slopes};
    imbrex::causal const mask{align::bottom_right};
    imbrex::sink_logits const sink{std::span(sinks)};
    for_each_unit({}, [&](call_tensors<f32> const& t, attention_case const& c) {
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, cap | distance | mask | sink, with_lse(t)));
        auto const expect_same = [&](auto const& other) {
            call_tensors<f32> const again{c};
            std::ranges::copy(t.q.memory, again.q.memory.data());
            ASSERT_OK(planned(t.q.view, t.kv(), again.out.view, other, with_lse(again)));
            EXPECT_TRUE(same_bits(t.out.memory, again.out.memory));
            EXPECT_TRUE(same_bits(t.lse, again.lse));
        };
        expect_same(sink | mask | distance | cap);
        expect_same(distance | (sink | cap) | mask);
    });
}

}    // namespace
}    // namespace imbrex_test
