// Where tensors lie in memory does not change a bit, and nothing beside them is touched.
#include <cstdint>
#include <limits>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;
using imbrex::strides4;

constexpr index wild = index{1} << 60;    // a stride that must never be multiplied by anything but 0

template <class T>
void copy_values(tensor_view<T> from, tensor_view<T> to) {
    for_each_row(from, [&](index b, index i, index h, T const* row) { std::copy_n(row, from.shape.head_dim, to.row(b, i, h)); });
}

template <class T>
bool same_values(tensor_view<T> a, tensor_view<T> b) {
    bool same = a.shape == b.shape;
    for_each_row(a, [&](index n, index i, index h, T const* row) {
        same = same && std::memcmp(row, b.row(n, i, h), static_cast<std::size_t>(a.shape.head_dim) * sizeof(T)) == 0;
    });
    return same;
}

// Wide with copied heads, wide without, narrow.
attention_case const cases[] = {
    {.batch = 2, .q_tokens = 270, .kv_tokens = 130, .q_heads = 8, .kv_heads = 8, .head_dim = 40, .sees = rule::top_left},
    {.batch = 2, .q_tokens = 33, .kv_tokens = 70, .q_heads = 4, .kv_heads = 2, .head_dim = 37, .sees = rule::bottom_right},
    {.batch = 2, .q_tokens = 2, .kv_tokens = 150, .q_heads = 4, .kv_heads = 2, .head_dim = 37, .sees = rule::bottom_right},
};

class AttentionLayout : public Seeded {
protected:
    // f(case, tensors of a call in BHSD that has been made)
    template <class F>
    void for_each_case(F const& f) {
        for (attention_case const& c : cases) {
            SCOPED_TRACE(testing::Message() << c);
            call_tensors<f32> const t{c};
            fill(t);
            ASSERT_OK(planned(t, c.sees));
            f(c, t);
        }
    }

    // The same values in other places give the same bits.
    static void expect_same(attention_case const& c, call_tensors<f32> const& t, tensor_view<float> q, tensor_view<float> k, tensor_view<float> v,
                            tensor_view<float> out) {
        copy_values(t.q.view, q);
        copy_values(t.k.view, k);
        copy_values(t.v.view, v);
        with_rule(c.sees, [&](auto const& r) { EXPECT_OK(planned(q, imbrex::dense_kv{k, v}, out, r)); });
        EXPECT_TRUE(same_values(t.out.view, out));
    }
};

TEST_F(AttentionLayout, BshdGivesTheBitsOfBhsd) {
    for_each_case([](attention_case const& c, call_tensors<f32> const& t) {
        attention_case bshd = c;
        bshd.memory = order::bshd;
        call_tensors<f32> const u{bshd};
        imbrex::plan p;
        ASSERT_OK(imbrex::plan_for(u.q.view, u.kv(), u.out.view, p));
        ASSERT_EQ(p.copy_bytes > 0, c.q_tokens == 270) << "the first case is to copy kv heads, the others not: " << imbrex::path_of(p).c_str();
        expect_same(c, t, u.q.view, u.k.view, u.v.view, u.out.view);
    });
}

TEST_F(AttentionLayout, PackedQkvAndOutputInOneBufferGiveTheBitsOfBhsd) {
    for_each_case([](attention_case const& c, call_tensors<f32> const& t) {
        index const tokens = std::max(c.q_tokens, c.kv_tokens), d = c.head_dim, q_row = c.q_heads * d, kv_row = c.kv_heads * d;
        index const token = 2 * (q_row + kv_row);    // query, key, value and output heads of one token
        guarded<float> const buffer(static_cast<std::size_t>(c.batch * tokens * token));
        auto const slice = [&](index at, shape4 shape) { return imbrex::strided(buffer.data() + at, shape, strides4{tokens * token, token, d, 1}); };
        expect_same(c, t, slice(0, c.q()), slice(q_row, c.k()), slice(q_row + kv_row, c.v()), slice(q_row + 2 * kv_row, c.out()));
    });
}

TEST_F(AttentionLayout, RowsWithGapsGiveTheBitsOfBhsdAndTheGapsStayUntouched) {
    for_each_case([](attention_case const& c, call_tensors<f32> const& t) {
        auto const with_gaps = [](guarded<float> const& memory, shape4 s) {
            return imbrex::strided(memory.data(), s, strides4{s.heads * s.tokens * (s.head_dim + 3), s.head_dim + 3, s.tokens * (s.head_dim + 3), 1});
        };
        auto const size = [](shape4 s) { return static_cast<std::size_t>(s.batch * s.tokens * s.heads * (s.head_dim + 3)); };
        guarded<float> const q{size(c.q())}, k{size(c.k())}, v{size(c.v())}, out{size(c.out())};
        expect_same(c, t, with_gaps(q, c.q()), with_gaps(k, c.k()), with_gaps(v, c.v()), with_gaps(out, c.out()));
        std::size_t touched = 0;
        for (float const x : out) touched += std::bit_cast<std::uint32_t>(x) != 0xffffffffu;
        EXPECT_EQ(touched, t.out.memory.size());
    });
}

TEST_F(AttentionLayout, ReversedAxesGiveTheBitsOfBhsd) {
    for_each_case([](attention_case const& c, call_tensors<f32> const& t) {
        auto const reversed = [](tensor<float> const& x) {
            tensor_view<float> r = x.view;
            r.data = r.row(r.shape.batch - 1, r.shape.tokens - 1, r.shape.heads - 1);
            r.strides = {-r.strides.batch, -r.strides.token, -r.strides.head, 1};
            return r;
        };
        call_tensors<f32> const u{c};
        expect_same(c, t, reversed(u.q), reversed(u.k), reversed(u.v), reversed(u.out));
    });
}

TEST_F(AttentionLayout, LogSumExpGoesWhereItsStridesSay) {
    for_each_case([](attention_case const& c, call_tensors<f32> const& t) {
        guarded<float> const lse(static_cast<std::size_t>(2 * c.batch * c.q_tokens * c.q_heads));    // (batch, token, head), every other one
        imbrex::row_stats_view<float> const view{lse.data(), 2 * c.q_tokens * c.q_heads, 2, 2 * c.q_heads};
        with_rule(c.sees, [&](auto const& r) { EXPECT_OK(planned(t.q.view, t.kv(), t.out.view, r, {.lse = view})); });
        auto const expected = imbrex::bhs(t.lse.data(), c.q());
        for_each_row(t.q.view, [&](index b, index i, index h, float const*) { EXPECT_EQ(*view.at(b, h, i), *expected.at(b, h, i)); });
        for (std::size_t i = 1; i < lse.size(); i += 2) EXPECT_EQ(std::bit_cast<std::uint32_t>(lse[i]), 0xffffffffu);
    });
}

// An expanded axis: every index of it is the same memory.
TEST_F(AttentionLayout, StrideZeroKeysAndValuesEqualMaterialisedOnes) {
    for (attention_case c : cases) {
        for (index const axis : {0, 1, 2}) {
            SCOPED_TRACE(testing::Message() << c << ", axis " << axis);
            call_tensors<f32> const t{c};
            fill(t);
            auto const expand = [&](tensor_view<float> x) {
                tensor_view<float> e = x;
                (axis == 0 ? e.strides.batch : axis == 1 ? e.strides.token : e.strides.head) = 0;
                for_each_row(x, [&](index b, index i, index h, float* row) { std::copy_n(e.row(b, i, h), e.shape.head_dim, row); });
                return e;
            };
            imbrex::dense_kv const expanded{expand(t.k.view), expand(t.v.view)};
            ASSERT_OK(planned(t, c.sees));
            tensor<float> const out{c.out(), c.memory};
            with_rule(c.sees, [&](auto const& r) { EXPECT_OK(planned(t.q.view, expanded, out.view, r)); });
            EXPECT_TRUE(same_bits(t.out.memory, out.memory));
        }
    }
}

TEST_F(AttentionLayout, OneSequenceOfKeysAndValuesServesTheWholeBatch) {
    for (attention_case c : cases) {
        SCOPED_TRACE(testing::Message() << c);
        attention_case shared = c;
        shared.batch = 1;
        call_tensors<f32> const t{c}, s{shared};
        fill(t);
        fill(s);
        for (index b = 0; b < c.batch; ++b) {
            std::ranges::copy(s.k.memory, t.k.view.row(b, 0, 0));
            std::ranges::copy(s.v.memory, t.v.view.row(b, 0, 0));
        }
        ASSERT_OK(planned(t, c.sees));
        tensor<float> const out{c.out(), c.memory};
        with_rule(c.sees, [&](auto const& r) { EXPECT_OK(planned(t.q.view, s.kv(), out.view, r)); });
        EXPECT_TRUE(same_bits(t.out.memory, out.memory));
    }
}

TEST_F(AttentionLayout, StridesOfAxesOfSizeOneAreIgnored) {
    for (index const q_tokens : {index{1}, index{12}, index{300}}) {
        for (index const head_dim : {1, 20}) {
            attention_case const c{.q_tokens = q_tokens, .kv_tokens = 1, .head_dim = head_dim, .sees = rule::top_left};
            SCOPED_TRACE(testing::Message() << c);
            call_tensors<f32> const t{c};
            fill(t);
            ASSERT_OK(planned(t, c.sees));
            auto const loosen = [](tensor_view<float> x) {
                x.strides = {wild, x.shape.tokens == 1 ? wild : x.strides.token, -wild, x.shape.head_dim == 1 ? wild : 1};
                return x;
            };
            call_tensors<f32> const u{c};
            expect_same(c, t, loosen(u.q.view), loosen(u.k.view), loosen(u.v.view), loosen(u.out.view));
        }
    }
}

}    // namespace
}    // namespace imbrex_test
