// Transforms and sinks through attention(), in both units: each against a reference that applies its formula.
#include "attention_transforms.hpp"

namespace imbrex_test {
namespace {

TEST_F(AttentionTransforms, ScalesByHead) { expect_right({.scales = scaling::head_scale}); }
TEST_F(AttentionTransforms, ScalesByLength) { expect_right({.scales = scaling::length_temperature}); }
TEST_F(AttentionTransforms, CapsScores) {
    for (double const cap : {0.5, 30.0}) expect_right({.cap = cap});
}
TEST_F(AttentionTransforms, AddsAlibi) { expect_right({.adds = bias::alibi}); }
TEST_F(AttentionTransforms, AddsRelativeBias) { expect_right({.adds = bias::relative}); }
TEST_F(AttentionTransforms, AddsTensorsOfEveryType) {
    for (bias const form : {bias::tensor_f32, bias::tensor_bf16, bias::tensor_f16, bias::tensor_f64}) expect_right({.adds = form});
}
TEST_F(AttentionTransforms, CallsALambda) { expect_right({.adds = bias::function}); }
TEST_F(AttentionTransforms, CountsASinkOnce) { expect_right({.sink = true}); }
TEST_F(AttentionTransforms, DoesAllOfItAtOnce) {
    for (bias const form : {bias::alibi, bias::relative, bias::tensor_bf16, bias::function}) {
        expect_right({.scales = scaling::head_scale, .cap = 2, .adds = form, .causal = true, .sink = true});
    }
}

// Known fault 23: a hidden key, capped, would be -cap. Known fault 24: with cap 1 even that has weight.
TEST_F(AttentionTransforms, ACapLetsNoHiddenKeyThrough) {
    for_each_unit({.cap = 1, .adds = bias::tensor_f32}, [&](call_tensors<f32> const& t, attention_case const& c) {
        for (std::size_t i = 0; i < tensor_f32.size(); ++i) tensor_f32[i] = i % static_cast<std::size_t>(c.kv_tokens) == 7 ? -infinite : 0.f;
        rule_case const r{.cap = 1, .adds = bias::tensor_f32};
        for (index b = 0; b < c.batch; ++b) {
            for (index h = 0; h < c.kv_heads; ++h) std::fill_n(t.v.view.row(b, 7, h), c.head_dim, 1000.f);
        }
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of(r, c), with_lse(t)));
        for_each_row(t.out.view, [&](index, index, index, float const* row) {
            for (index d = 0; d < c.head_dim; ++d) ASSERT_LT(std::abs(row[d]), 10.f);
        });
        expect_accurate(t, [](index, index, index, index j) { return j != 7; }, accuracy::rule, {}, effects_of(r, c));
    });
}

// Known fault 14, by a bias: NaN behind -inf.
TEST_F(AttentionTransforms, NanBehindABiasOfMinusInfinityIsNotUsed) {
    for (bias const form : {bias::tensor_f32, bias::tensor_bf16, bias::tensor_f16, bias::tensor_f64, bias::function}) {
        rule_case const r{.cap = 5, .adds = form, .sink = true};
        for_each_unit(r, [&](call_tensors<f32> const& t, attention_case const& c) {
            auto const hide = [&](auto& tensor) {
                for (std::size_t i = 0; i < tensor.size(); ++i) {
                    using E = std::remove_cvref_t<decltype(tensor[0])>;
                    tensor[i] = imbrex::round_to<E>(i % static_cast<std::size_t>(c.kv_tokens) % 4 == 2 ? -HUGE_VAL : 0.5);
                }
            };
            hide(tensor_f32), hide(tensor_bf16), hide(tensor_f16), hide(tensor_f64);
            for (index j = 2; j < c.kv_tokens; j += 4) {
                for (index b = 0; b < c.batch; ++b) {
                    for (index h = 0; h < c.kv_heads; ++h) {
                        std::fill_n(t.k.view.row(b, j, h), c.head_dim, std::nanf(""));
                        std::fill_n(t.v.view.row(b, j, h), c.head_dim, std::nanf(""));
                    }
                }
            }
            ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of(r, c), with_lse(t)));
            expect_accurate(t, visibility_of(r, c), accuracy::rule, {}, effects_of(r, c));
        });
    }
}

// Known fault 3: finite, though times log2 e it overflows.
TEST_F(AttentionTransforms, ARowOfTheLowestNumbersIsTheMeanOfItsValues) {
    for_each_unit({.adds = bias::tensor_f32}, [&](call_tensors<f32> const& t, attention_case const& c) {
        std::fill(tensor_f32.begin(), tensor_f32.end(), -3.4e38f);
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of({.adds = bias::tensor_f32}, c), with_lse(t)));
        for_each_row(t.out.view, [&](index b, index, index h, float const* row) {
            for (index d = 0; d < c.head_dim; ++d) {
                double mean = 0;
                for (index j = 0; j < c.kv_tokens; ++j) mean += static_cast<double>(t.v.view.row(b, j, h / (heads / c.kv_heads))[d]);
                ASSERT_NEAR(row[d], mean / static_cast<double>(c.kv_tokens), 1e-5);
            }
        });
    });
}

// Known fault 25, and 8: a bias of the second sequence; blocks of hidden keys before a sink.
TEST_F(AttentionTransforms, EachSequenceHasItsOwnBias) {
    rule_case const r{.adds = bias::tensor_f32, .sink = true};
    for_each_unit(r, [&](call_tensors<f32> const& t, attention_case const& c) {
        std::size_t const half = tensor_f32.size() / 2;
        for (std::size_t i = 0; i < tensor_f32.size(); ++i) {
            bool const late = i % static_cast<std::size_t>(c.kv_tokens) >= 140;
            tensor_f32[i] = i < half ? 1.f : late ? -2.f : -infinite;
        }
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of(r, c), with_lse(t)));
        expect_accurate(t, visibility_of(r, c), accuracy::rule, {}, effects_of(r, c));
    });
}

// An empty row with a sink: 0 and the logit.
TEST_F(AttentionTransforms, AnEmptyRowWithASinkIsZeroAndItsLseIsTheLogit) {
    rule_case const r{.adds = bias::tensor_f32, .sink = true};
    for_each_unit(r, [&](call_tensors<f32> const& t, attention_case const& c) {
        std::fill(tensor_f32.begin(), tensor_f32.end(), -infinite);
        ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of(r, c), with_lse(t)));
        for_each_row(t.out.view, [&](index b, index i, index h, float const* row) {
            for (index d = 0; d < c.head_dim; ++d) ASSERT_EQ(row[d], 0.f);
            ASSERT_EQ(*imbrex::bhs(t.lse.data(), t.q.view.shape).at(b, h, i), logits[static_cast<std::size_t>(h)]);
        });
    });
}

// Known fault 29: the sink is no multiple of the scale.
TEST_F(AttentionTransforms, ASinkIsNotScaled) {
    for_each_unit({.sink = true}, [&](call_tensors<f32> const& t, attention_case const& c) {
        for (double const scale : {0.0, -0.5, 3.0}) {
            imbrex::options o = with_lse(t);
            o.scale = scale;
            ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, rule_of({.sink = true}, c), o));
            expect_accurate(t, sees_everything(), accuracy::rule, scale, effects_of({.sink = true}, c));
        }
    });
}

TEST_F(AttentionTransforms, ARuleThatDoesNotFitIsRefused) {
    attention_case const c{.q_tokens = 3, .kv_tokens = 5, .q_heads = heads, .kv_heads = 2, .head_dim = 8};
    make_tables(c);
    call_tensors<f32> const t{c};
    attention_case wide = c;
    wide.kv_tokens = 6;
    auto const s = planned(t.q.view, t.kv(), t.out.view, rule_of({.adds = bias::tensor_f32}, wide), with_lse(t));
    EXPECT_EQ(s.code(), imbrex::errc::rule_axis) << s.message().c_str();
}

}    // namespace
}    // namespace imbrex_test
