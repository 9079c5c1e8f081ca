// sink.hpp
#include "imbrex/rules/sink.hpp"

#include <span>

#include "transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::sink_logits;

template <class E>
class SinkLogitsOf : public testing::Test {};
using elements = testing::Types<float, double, imbrex::bf16, imbrex::f16>;
TYPED_TEST_SUITE(SinkLogitsOf, elements, type_names);

TYPED_TEST(SinkLogitsOf, AreThoseOfTheQueryHead) {
    using E = TypeParam;
    std::vector<E> const logits{imbrex::round_to<E>(0.5), imbrex::round_to<E>(-3.0), imbrex::round_to<E>(-HUGE_VAL)};
    sink_logits const rule{std::span(logits)};
    static_assert(imbrex::has_sink<decltype(rule)> && imbrex::score_rule<std::remove_const_t<decltype(rule)>>);
    EXPECT_EQ(rule.sink(row_context<position>{some_context, 0}), 0.5);
    EXPECT_EQ(rule.sink(row_context<position>{some_context, 1}), -3.0);
    EXPECT_EQ(rule.sink(row_context<position>{some_context, 2}), -HUGE_VAL);
}

TYPED_TEST(SinkLogitsOf, WantALogitPerQueryHead) {
    std::vector<TypeParam> logits(4);
    sink_logits const rule{std::span(logits)};
    EXPECT_TRUE(rule.check({1, 4, 1, 1}).ok());
    expect_status(rule.check({1, 5, 1, 1}), errc::rule_too_short, rule_operand::sink_logits, 4, 5);
}

TEST(SinkLogits, ADoubleKeepsItsDigits) {
    std::vector<double> const logits{1.0 / 3};
    EXPECT_EQ(sink_logits{std::span(logits)}.sink(row_context<position>{some_context, 0}), 1.0 / 3);
}

}    // namespace
}    // namespace imbrex_test
