// What must hold in every precision, instantiated for the uniform ones and for the mixed ones.
#pragma once

#include <string>

#include "attention_cases.hpp"

namespace imbrex_test {

template <class P>
class AttentionPrecisions : public Seeded {
protected:
    static constexpr bool output_is_16_bit = sizeof(typename P::output) == 2;
    static constexpr double epsilon = std::is_same_v<typename P::score, double> ? 0x1p-52 : 0x1p-23;

    void expect_ones(attention_case const& c, double tolerance) {
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<P> const t{c};
        fill(t);
        std::ranges::fill(t.v.memory, imbrex::round_to<typename P::value>(1.0f));
        ASSERT_OK(planned(t, c.sees));
        for (auto const x : t.out.memory) ASSERT_LE(std::abs(imbrex::to_double(x) - 1), output_is_16_bit ? 0 : tolerance);
    }
};

TYPED_TEST_SUITE_P(AttentionPrecisions);

struct precision_names {
    template <class P>
    static std::string GetName(int) {
        std::string name;
        for (std::string_view const part : {imbrex::dtype_name<typename P::query>(), imbrex::dtype_name<typename P::key>(),
                                            imbrex::dtype_name<typename P::value>(), imbrex::dtype_name<typename P::output>()}) {
            name += name.empty() ? "" : "_";
            name += part;
        }
        return name;
    }
};

TYPED_TEST_P(AttentionPrecisions, MatchAWiderTypeWithAnyHeadDim) {
    struct {
        index keys, values;
    } const dims[] = {{1, 1}, {5, 5}, {37, 37}, {63, 63}, {64, 64}, {80, 80}, {112, 112}, {128, 128}, {192, 128}, {256, 256}, {576, 512}, {1024, 1024}};
    for (auto const& d : dims) {
        for (index const q_tokens : {1, 19}) {
            this->template expect_right<TypeParam>({.q_tokens = q_tokens,
                                                    .kv_tokens = 37,
                                                    .q_heads = 4,
                                                    .kv_heads = 2,
                                                    .head_dim = d.keys,
                                                    .head_dim_v = d.values,
                                                    .sees = rule::bottom_right,
                                                    .memory = order::bshd});
        }
    }
}

TYPED_TEST_P(AttentionPrecisions, MatchAWiderTypeWithAnyLengths) {
    struct {
        index q, kv;
    } const lengths[] = {{1, 1}, {1, 300}, {4, 129}, {113, 203}, {203, 113}, {70, 1}, {5, 0}, {0, 5}};
    for (auto const& n : lengths) {
        for (rule const r : {rule::full, rule::top_left, rule::bottom_right}) {
            this->template expect_right<TypeParam>({.batch = 2, .q_tokens = n.q, .kv_tokens = n.kv, .q_heads = 2, .head_dim = 48, .sees = r});
        }
    }
}

TYPED_TEST_P(AttentionPrecisions, MatchAWiderTypeFromCopiedHeads) {
    attention_case const c{.q_tokens = 280, .kv_tokens = 270, .q_heads = 16, .kv_heads = 16, .head_dim = 40, .sees = rule::top_left, .memory = order::bshd};
    call_tensors<TypeParam> const t{c};
    imbrex::plan p;
    ASSERT_OK(imbrex::plan_for(t.q.view, t.kv(), t.out.view, p));
    ASSERT_GT(p.copy_bytes, 0) << "no longer a case that copies: " << imbrex::path_of(p).c_str();
    this->template expect_right<TypeParam>(c);
}

TYPED_TEST_P(AttentionPrecisions, StayAccurateWhenQueriesAndKeysAreLarge) {
    for (double const amplitude : {5, 20}) {
        for (index const q_tokens : {3, 50}) {
            index const heads = q_tokens == 3 ? 200 : 20;
            attention_case const c{.q_tokens = q_tokens, .kv_tokens = 130, .q_heads = heads, .kv_heads = heads, .head_dim = 64, .sees = rule::bottom_right};
            SCOPED_TRACE(testing::Message() << c << " times " << amplitude);
            call_tensors<TypeParam> const t{c};
            this->fill_with_near_ties(t, amplitude);
            ASSERT_OK(planned(t, c.sees));
            expect_accurate(t, visibility_of(c));
        }
    }
}

TYPED_TEST_P(AttentionPrecisions, ValuesOfOneGiveOneWithinTwoUlp) {
    for (index const kv_tokens : {1, 2, 7, 64, 129, 1000}) {
        for (index const q_tokens : {1, 5, 40}) this->expect_ones({.q_tokens = q_tokens, .kv_tokens = kv_tokens, .head_dim = 32}, 2 * this->epsilon);
    }
}

TYPED_TEST_P(AttentionPrecisions, ValuesOfOneGiveOneWithinTheRootOfManyKeys) {
    for (index const kv_tokens : {4096, 16384}) {
        double const tolerance = std::sqrt(static_cast<double>(kv_tokens)) * this->epsilon;
        for (index const q_tokens : {1, 20}) this->expect_ones({.q_tokens = q_tokens, .kv_tokens = kv_tokens, .head_dim = 8}, tolerance);
    }
}

REGISTER_TYPED_TEST_SUITE_P(AttentionPrecisions, MatchAWiderTypeWithAnyHeadDim, MatchAWiderTypeWithAnyLengths, MatchAWiderTypeFromCopiedHeads,
                            StayAccurateWhenQueriesAndKeysAreLarge, ValuesOfOneGiveOneWithinTwoUlp, ValuesOfOneGiveOneWithinTheRootOfManyKeys);

}    // namespace imbrex_test
