// bias_tensor.hpp
#include "imbrex/rules/bias_tensor.hpp"

#include "transforms.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::bias_tensor;
using imbrex::f16;
using imbrex::score_matrix;
using imbrex::score_shape;
using imbrex::score_strides;
using imbrex::score_view;

template <class E>
class BiasTensorOf : public testing::Test {
protected:
    // An axis of size 1 has a stride that must not be used.
    static score_view<E const> view_of(std::vector<E> const& memory, score_shape shape) {
        auto view = score_matrix(memory.data(), shape);
        if (shape.batch == 1) view.strides.batch = index{1} << 40;
        if (shape.heads == 1) view.strides.head = index{1} << 40;
        if (shape.q_tokens == 1) view.strides.query = index{1} << 40;
        if (shape.kv_tokens == 1) view.strides.key = index{1} << 40;
        return view;
    }
    static std::vector<E> memory_of(score_shape s) {
        std::mt19937 random{37};
        std::normal_distribution<float> normal;
        std::vector<E> memory;
        for (index i = 0; i < s.batch * s.heads * s.q_tokens * s.kv_tokens; ++i) memory.push_back(imbrex::round_to<E>(normal(random)));
        return memory;
    }
    static constexpr index all = 16;
    // Bit n of `axes`: axis n has a size of its own.
    static score_shape shape_of(index axes) {
        return {(axes & 1) != 0 ? 2 : 1, (axes & 2) != 0 ? 4 : 1, (axes & 4) != 0 ? 50 : 1, (axes & 8) != 0 ? 60 : 1};
    }
};
using elements = testing::Types<float, double, bf16, f16>;
TYPED_TEST_SUITE(BiasTensorOf, elements, type_names);

TYPED_TEST(BiasTensorOf, IsTheElementOfBatchHeadQueryAndKeyOnAnyAxes) {
    for (index axes = 0; axes < this->all; ++axes) {
        score_shape const shape = this->shape_of(axes);
        auto const memory = this->memory_of(shape);
        bias_tensor const rule(this->view_of(memory, shape));
        expect_formula(rule, some_context, 4, [&](double s, index h, index q, index kv) {
            index const at = ((std::min(shape.batch - 1, some_context.batch) * shape.heads + std::min(shape.heads - 1, h)) * shape.q_tokens +
                              std::min(shape.q_tokens - 1, q - some_context.query_offset())) *
                                 shape.kv_tokens +
                             std::min(shape.kv_tokens - 1, kv);
            return s + imbrex::to_double(memory[static_cast<std::size_t>(at)]);
        }, 3);
    }
}

TYPED_TEST(BiasTensorOf, LanesAreWhatNumbersAreOnAnyAxes) {
    for (index axes = 0; axes < this->all; ++axes) {
        auto const memory = this->memory_of(this->shape_of(axes));
        expect_lanes_agree(bias_tensor(this->view_of(memory, this->shape_of(axes))), some_context, 4);
    }
}

TYPED_TEST(BiasTensorOf, WithKeysApartLanesAreWhatNumbersAre) {
    auto const memory = this->memory_of({1, 1, 50, 60});
    score_view<TypeParam const> const view{memory.data(), {1, 1, 50, 60}, {0, 0, 1, 50}};
    expect_lanes_agree(bias_tensor(view), some_context, 4);
}

TYPED_TEST(BiasTensorOf, MinusInfinityHidesAndTheLowestNumberDoesNot) {
    using E = TypeParam;
    E const lowest = imbrex::round_to<E>(std::is_same_v<E, double> ? -1.7e308 : std::is_same_v<E, f16> ? -65504.0 : -3.38e38);
    std::vector<E> const memory{lowest, imbrex::round_to<E>(-HUGE_VAL)};
    bias_tensor const numbers(score_view<E const>{memory.data(), {1, 1, 1, 1}, {}});
    bias_tensor const hides(score_view<E const>{memory.data() + 1, {1, 1, 1, 1}, {}});
    expect_only_hidden_is_hidden(numbers, some_context, 1);
    expect_lanes_agree(numbers, some_context, 1);
    expect_lanes_agree(hides, some_context, 1);
    EXPECT_EQ(transformed_at(hides, some_context, 0, 3.f, 20, 0), -infinite);
    EXPECT_EQ(transformed_at(hides, some_context, 0, std::nanf(""), 20, 0), -infinite);
    EXPECT_EQ(transformed_at(hides, some_context, 0, infinite, 20, 0), -infinite);
}

// Known fault 4.
TEST(BiasTensor, TwoLowestNumbersDoNotAddUpToHiding) {
    bf16 const lowest(-3.39e38f);
    bias_tensor const rule(score_view<bf16 const>{&lowest, {}, {}});
    float const once = transformed_at(rule, some_context, 0, -1e38f, 20, 0);
    EXPECT_EQ(transformed_at(rule, some_context, 0, once, 20, 0), std::numeric_limits<float>::lowest());
}

TEST(BiasTensor, StridesBeyond32BitsAreHonoured) {
    // Head 1 lies 2^33 elements on, and query 1 as far back: only their sum is an address.
    index const far = index{1} << 33;
    std::vector<float> const memory{1, 2, 3, 4};
    bias_tensor const rule(score_view<float const>{memory.data(), {1, 2, 2, 2}, {0, far + 2, -far, 1}});
    head_context const ctx{0, 2, 2, 0, 2};
    EXPECT_EQ(transformed_at(rule, ctx, 0, 0.f, 0, 1), 2.f);
    EXPECT_EQ(transformed_at(rule, ctx, 1, 0.f, 1, 1), 4.f);
    using I = imbrex::lanes<std::int32_t>;
    auto const by_lanes = lanes_of<float>(rule.transform(row_context<I>{ctx, I(1)}, lanes<float>(0.f), I(1), I(0)));
    for (float const x : by_lanes) EXPECT_EQ(x, 3.f);
}

TEST(BiasTensor, ShapesFitOrAreOne) {
    std::vector<float> const memory(2 * 4 * 50 * 60);
    auto const check = [&](score_shape s) { return bias_tensor(score_matrix(memory.data(), s)).check({2, 4, 50, 60}); };
    EXPECT_TRUE(check({2, 4, 50, 60}).ok());
    EXPECT_TRUE(check({1, 1, 1, 1}).ok());
    EXPECT_TRUE(check({2, 1, 50, 1}).ok());
    expect_status(check({3, 4, 50, 60}), errc::rule_axis, 0, 3, 2);
    expect_status(check({2, 2, 50, 60}), errc::rule_axis, 1, 2, 4);
    expect_status(check({2, 4, 51, 60}), errc::rule_axis, 2, 51, 50);
    expect_status(check({2, 4, 50, 59}), errc::rule_axis, 3, 59, 60);
    expect_status(check({0, 4, 50, 60}), errc::rule_axis, 0, 0, 2);
}

TEST(BiasTensor, WithoutMemoryIsRefused) {
    bias_tensor const rule(imbrex::score_matrix<float const>(nullptr, {1, 1, 50, 60}));
    EXPECT_EQ(rule.check({2, 4, 50, 60}).code(), errc::rule_too_short);
}

TEST(BiasTensor, ANaNDoesNotShowWhatAnotherBiasHides) {
    using S = imbrex::lanes<float>;
    float const nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(imbrex::biased(-infinite, nan), -infinite);
    EXPECT_TRUE(xsimd::all(imbrex::biased(S(-infinite), S(nan)) == S(-infinite)));
    EXPECT_TRUE(xsimd::all(imbrex::biased(S(nan), S(-infinite)) == S(-infinite)));
    EXPECT_TRUE(std::isnan(imbrex::biased(S(1), S(nan)).get(0)));
}

TEST(BiasTensor, MayHideInAnyTile) {
    float const zero = 0;
    EXPECT_EQ(bias_tensor(score_view<float const>{&zero, {}, {}}).classify(some_context, {10, 12, 0, 5}), coverage::partial);
}

}    // namespace
}    // namespace imbrex_test
