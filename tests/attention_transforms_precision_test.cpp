// softcap | bias | causal | sink in every precision, each a rule of its own type; and the order of a chain does not matter.
#include <span>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f16;
using imbrex::precision;

class AttentionTransformsPrecision : public Seeded {
protected:
    static constexpr index heads = 4;
    std::vector<float> const slopes{0.25f, 0.0625f, 0.1f, 0.01f};
    std::vector<bf16> const logits{bf16(0.5f), bf16(2.f), bf16(-3.f), bf16(6.f)};
    imbrex::softcap const cap{3};
    imbrex::causal const mask{imbrex::align::bottom_right};

    auto rule() const { return cap | imbrex::alibi{slopes} | mask | imbrex::sink_logits{std::span(logits)}; }

    score_effects effects(attention_case const& c) const {
        score_effects e;
        e.change = [=, this](index, index h, index i, index j, long double s) {
            index const q = i + c.kv_tokens - c.q_tokens;
            return 3 * std::tanh(s / 3) - static_cast<long double>(slopes[static_cast<std::size_t>(h)]) * static_cast<long double>(std::abs(q - j));
        };
        e.sink = [this](index h) { return static_cast<long double>(imbrex::to_double(logits[static_cast<std::size_t>(h)])); };
        return e;
    }

    // f(tensors, case): GQA 4/2, batch 2, the narrow unit and the wide one.
    template <class P, class F>
    void for_each_unit(F const& f) {
        for (index const q_tokens : {1, 4, 90}) {
            attention_case const c{.batch = 2, .q_tokens = q_tokens, .kv_tokens = 140, .q_heads = heads, .kv_heads = 2, .head_dim = 32};
            SCOPED_TRACE(testing::Message() << c);
            call_tensors<P> const t{c};
            fill(t);
            f(t, c);
        }
    }
    template <class P>
    static imbrex::options with_lse(call_tensors<P> const& t) { return {.lse = imbrex::bhs(t.lse.data(), t.q.view.shape)}; }

    template <class P>
    void expect_right() {
        for_each_unit<P>([&](call_tensors<P> const& t, attention_case const& c) {
            ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule(), with_lse(t)));
            expect_accurate(t, sees_bottom_right(c.q_tokens, c.kv_tokens), accuracy::rule, {}, effects(c));
        });
    }
};

TEST_F(AttentionTransformsPrecision, F32) { expect_right<precision<float>>(); }
TEST_F(AttentionTransformsPrecision, F64) { expect_right<precision<double>>(); }
TEST_F(AttentionTransformsPrecision, Bf16) { expect_right<precision<bf16>>(); }
TEST_F(AttentionTransformsPrecision, F16) { expect_right<precision<f16>>(); }
TEST_F(AttentionTransformsPrecision, F32OnBf16) { expect_right<precision<float, bf16, bf16, float>>(); }

TEST_F(AttentionTransformsPrecision, TheOrderOfTheChainDoesNotMatter) {
    using P = precision<float>;
    for_each_unit<P>([&](call_tensors<P> const& t, attention_case const& c) {
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule(), with_lse(t)));
        auto const expect_same = [&](auto const& other) {
            call_tensors<P> const again{c};
            ASSERT_OK(planned(t.q.view, t.kv(), again.out.view, other, with_lse(again)));
            EXPECT_TRUE(same_bits(t.out.memory, again.out.memory));
            EXPECT_TRUE(same_bits(t.lse, again.lse));
        };
        expect_same(imbrex::sink_logits{std::span(logits)} | mask | imbrex::alibi{slopes} | cap);
        expect_same(imbrex::alibi{slopes} | (imbrex::sink_logits{std::span(logits)} | cap) | mask);
    });
}

}    // namespace
}    // namespace imbrex_test
