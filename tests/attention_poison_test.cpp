// NaN and Inf: how far each may reach, in every element type and on both units.
#include <limits>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f16;
using imbrex::precision;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();

template <class T>
void fill_row(tensor_view<T> t, index b, index token, index head, float value) {
    std::fill_n(t.row(b, token, head), t.shape.head_dim, imbrex::round_to<T>(value));
}

template <class P>
class AttentionPoison : public Seeded {
protected:
    using tensors = call_tensors<P>;

    // Two calls' tensors with the same inputs.
    struct twins {
        tensors clean, poisoned;
        explicit twins(attention_case const& c) : clean{c}, poisoned{c} {}
    };
    twins two_of(attention_case const& c) {
        twins t{c};
        fill(t.clean);
        std::ranges::copy(t.clean.q.memory, t.poisoned.q.memory.data());
        std::ranges::copy(t.clean.k.memory, t.poisoned.k.memory.data());
        std::ranges::copy(t.clean.v.memory, t.poisoned.v.memory.data());
        return t;
    }

    static bool same_row(twins const& t, index b, index i, index h) {
        auto const lse = [&](tensors const& x) { return *imbrex::bhs(x.lse.data(), x.q.view.shape).at(b, h, i); };
        auto const bytes = static_cast<std::size_t>(t.clean.out.view.shape.head_dim) * sizeof(typename P::output);
        return std::memcmp(t.clean.out.view.row(b, i, h), t.poisoned.out.view.row(b, i, h), bytes) == 0 &&
               std::bit_cast<std::uint32_t>(lse(t.clean)) == std::bit_cast<std::uint32_t>(lse(t.poisoned));
    }
    template <class F>
    static bool every_column(tensors const& t, index b, index i, index h, F const& holds) {
        auto const* const row = t.out.view.row(b, i, h);
        return std::all_of(row, row + t.out.view.shape.head_dim, [&](auto x) { return holds(imbrex::to_double(x)); });
    }
    static bool all_nan(tensors const& t, index b, index i, index h) {
        return every_column(t, b, i, h, [](double x) { return std::isnan(x); });
    }
};

struct names {
    template <class P>
    static std::string GetName(int) {
        return std::string{imbrex::dtype_name<typename P::query>()} + "_on_" + std::string{imbrex::dtype_name<typename P::key>()};
    }
};
using precisions = testing::Types<precision<float>, precision<double>, precision<bf16>, precision<f16>, precision<float, bf16, bf16, float>>;
TYPED_TEST_SUITE(AttentionPoison, precisions, names);

TYPED_TEST(AttentionPoison, KeysThatNobodySeesAreNeverUsed) {
    for (index const q_tokens : {1, 2, 7, 17, 70}) {
        for (float const poison : {not_a_number, infinite, -infinite}) {
            attention_case const c{.batch = 2, .q_tokens = q_tokens, .kv_tokens = 200, .q_heads = 2, .head_dim = 40, .sees = rule::top_left, .memory = order::bshd};
            SCOPED_TRACE(testing::Message() << c << " poisoned with " << poison);
            auto const t = this->two_of(c);
            for (index b = 0; b < 2; ++b) {
                for (index j = q_tokens; j < c.kv_tokens; ++j) {
                    fill_row(t.poisoned.k.view, b, j, 0, poison);
                    fill_row(t.poisoned.v.view, b, j, 0, poison);
                }
            }
            ASSERT_OK(planned(t.clean, c.sees));
            ASSERT_OK(planned(t.poisoned, c.sees));
            expect_accurate(t.poisoned, visibility_of(c));
            EXPECT_TRUE(same_bits(t.clean.out.memory, t.poisoned.out.memory));
            EXPECT_TRUE(same_bits(t.clean.lse, t.poisoned.lse));
        }
    }
}

TYPED_TEST(AttentionPoison, ANanInAKeyReachesExactlyTheQueriesThatSeeIt) {
    for (index const tokens : {6, 100}) {
        for (index key = 0; key < tokens; key += tokens / 6 + 1) {
            attention_case const c{.q_tokens = tokens, .kv_tokens = tokens, .q_heads = 4, .kv_heads = 4, .head_dim = 24, .sees = rule::bottom_right};
            SCOPED_TRACE(testing::Message() << c << ", NaN in key " << key << " of head 2");
            auto const t = this->two_of(c);
            t.poisoned.k.view.row(0, key, 2)[11] = imbrex::round_to<typename TypeParam::key>(not_a_number);
            ASSERT_OK(planned(t.clean, c.sees));
            ASSERT_OK(planned(t.poisoned, c.sees));
            for_each_row(t.clean.out.view, [&](index b, index i, index h, auto const*) {
                if (h == 2 && i >= key) {
                    EXPECT_TRUE(this->all_nan(t.poisoned, b, i, h)) << "query " << i << ", head " << h;
                } else {
                    EXPECT_TRUE(this->same_row(t, b, i, h)) << "query " << i << ", head " << h;
                }
            });
        }
    }
}

TYPED_TEST(AttentionPoison, AnInfInAKeyReachesOnlyTheQueriesThatSeeIt) {
    for (index const tokens : {6, 100}) {
        index const key = tokens / 2;
        attention_case const c{.q_tokens = tokens, .kv_tokens = tokens, .q_heads = 2, .kv_heads = 2, .head_dim = 24, .sees = rule::bottom_right};
        auto const t = this->two_of(c);
        for (index h = 0; h < 2; ++h) fill_row(t.poisoned.k.view, 0, key, h, infinite);
        ASSERT_OK(planned(t.clean, c.sees));
        ASSERT_OK(planned(t.poisoned, c.sees));
        for_each_row(t.clean.out.view, [&](index b, index i, index h, auto const*) {
            EXPECT_EQ(this->same_row(t, b, i, h), i < key) << c << ", query " << i << ", head " << h;
        });
    }
}

TYPED_TEST(AttentionPoison, ANanInAQueryComesOutInItsRowAlone) {
    for (index const tokens : {3, 90}) {
        for (rule const r : {rule::full, rule::bottom_right}) {
            attention_case const c{.batch = 2, .q_tokens = tokens, .kv_tokens = 150, .q_heads = 2, .head_dim = 24, .sees = r};
            auto const t = this->two_of(c);
            t.poisoned.q.view.row(1, tokens / 2, 1)[0] = imbrex::round_to<typename TypeParam::query>(not_a_number);
            ASSERT_OK(planned(t.clean, r));
            ASSERT_OK(planned(t.poisoned, r));
            for_each_row(t.clean.out.view, [&](index b, index i, index h, auto const*) {
                SCOPED_TRACE(testing::Message() << c << ", batch " << b << ", query " << i << ", head " << h);
                if (b == 1 && i == tokens / 2 && h == 1) {
                    EXPECT_TRUE(this->all_nan(t.poisoned, b, i, h));
                    EXPECT_TRUE(std::isnan(*imbrex::bhs(t.poisoned.lse.data(), c.q()).at(b, h, i)));
                } else {
                    EXPECT_TRUE(this->same_row(t, b, i, h));
                }
            });
        }
    }
}

TYPED_TEST(AttentionPoison, QueriesOfNothingButNanGiveNanAndNotZeros) {
    for (index const q_tokens : {3, 16}) {
        attention_case const c{.batch = 2, .q_tokens = q_tokens, .kv_tokens = 16, .q_heads = 4, .kv_heads = 4, .head_dim = 8};
        call_tensors<TypeParam> const t{c};
        this->fill(t);
        t.q.memory.poison();
        ASSERT_OK(planned(t, c.sees));
        for (auto const x : t.out.memory) EXPECT_TRUE(std::isnan(imbrex::to_double(x)));
        for (float const x : t.lse) EXPECT_TRUE(std::isnan(x));
    }
}

// Rows of the same tile may show a value's NaN even if they do not see it (0 x NaN); other heads and sequences may not.
TYPED_TEST(AttentionPoison, ANanOrInfInAValueReachesAllThatSeeItAndNoOtherHead) {
    for (float const poison : {not_a_number, infinite}) {
        for (index const tokens : {6, 300}) {
            attention_case const c{.batch = 2, .q_tokens = tokens, .kv_tokens = tokens, .q_heads = 2, .kv_heads = 2, .head_dim = 24, .sees = rule::bottom_right};
            index const key = tokens / 2;
            auto const t = this->two_of(c);
            fill_row(t.poisoned.v.view, 0, key, 1, poison);
            ASSERT_OK(planned(t.clean, c.sees));
            ASSERT_OK(planned(t.poisoned, c.sees));
            for_each_row(t.clean.out.view, [&](index b, index i, index h, auto const*) {
                SCOPED_TRACE(testing::Message() << c << " with " << poison << ", batch " << b << ", query " << i << ", head " << h);
                if (b == 1 || h == 0) {
                    EXPECT_TRUE(this->same_row(t, b, i, h));
                } else if (i >= key) {
                    EXPECT_TRUE(this->every_column(t.poisoned, b, i, h, [](double x) { return !std::isfinite(x); }));
                } else if (i + 64 < key) {    // no tile has more rows than 64
                    EXPECT_TRUE(this->same_row(t, b, i, h));
                }
            });
        }
    }
}

}    // namespace
}    // namespace imbrex_test
