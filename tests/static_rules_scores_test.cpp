// Ten compositions with changes of scores and sinks.
#include "static_rules.hpp"

namespace imbrex_test {
namespace {

using namespace imbrex;

TEST(StaticScores, GemmasLocalLayer) {
    expect_like_dynamic("mask=bottom_right,window:20:0,both score=softcap:5",
                        [](rule_tables&) { return (bottom_right && window{.left = 20, .right = 0}) | softcap{5}; });
}
TEST(StaticScores, AlibiUnderACausalMask) {
    expect_like_dynamic("mask=bottom_right score=alibi:0:0:21", [](rule_tables& t) { return bottom_right | alibi{t.slopes(0)}; });
}
TEST(StaticScores, ARelativeBiasAlone) {
    expect_like_dynamic("score=relative:9:0:22", [](rule_tables& t) { return t.relative(0); });
}
TEST(StaticScores, ABiasTensorThatHidesSome) {
    expect_like_dynamic("score=bias:0:20:23", [](rule_tables& t) { return bias_tensor{t.bias(0)}; });
}
TEST(StaticScores, ABiasOfKeysInDocumentsWithACap) {
    expect_like_dynamic("mask=chunk:20 score=bias:6:10:24,softcap:2",
                        [](rule_tables& t) { return chunked{20} | bias_tensor{t.bias(0)} | softcap{2}; });
}
TEST(StaticScores, FactorsOfHeadsAndLengths) {
    expect_like_dynamic("mask=bottom_right score=head_scale:0:0:25,temperature:8:0:26",
                        [](rule_tables& t) { return head_scale{t.head_factors(0)} | bottom_right | length_temperature{t.temperatures(1), 8}; });
}
TEST(StaticScores, ASinkBesideAWindow) {
    expect_like_dynamic("mask=window:10:0 sink=27", [](rule_tables& t) { return window{.left = 10, .right = 0} | sink_logits{t.sink(0)}; });
}
TEST(StaticScores, ASinkAndRowsThatSeeNothing) {
    expect_like_dynamic("mask=top_left,bottom_right,negated,both sink=28,29", [](rule_tables& t) {
        return (top_left && !bottom_right) | sink_logits{t.sink(0)} | sink_logits{t.sink(1)};
    });
}
TEST(StaticScores, EverythingAtOnceInAnOrderUnlikeItsEffects) {
    expect_like_dynamic("mask=bottom_right,length:0:0:30,both score=alibi:0:0:31,relative:4:0:32,softcap:8,head_scale:0:0:33 sink=34",
                        [](rule_tables& t) {
                            return sink_logits{t.sink(0)} | alibi{t.slopes(0)} | bottom_right | t.relative(1) | softcap{8} |
                                   key_lengths{t.lengths(1)} | head_scale{t.head_factors(3)};
                        });
}
TEST(StaticScores, LambdasOfTheCallers) {
    expect_like_dynamic("mask=window:12:-1 score=softcap:4,alibi:0:0:35", [](rule_tables& t) {
        float const* const slopes = t.slopes(1).data();
        auto const band = mask_fn{[](auto const&, auto const& q, auto const& kv) { return kv + 12 >= q; }};
        auto const lean = transform_fn([slopes](auto const& ctx, auto const& s, auto const& q, auto const& kv) {
            using S = std::remove_cvref_t<decltype(s)>;
            S const back = as_score<S>(q - kv);
            return s - gather<S>(slopes, ctx.head()) * select(q >= kv, back, -back);
        });
        return band | lean | softcap{4};
    });
}

}    // namespace
}    // namespace imbrex_test
