// Packed calls for tests: tensors that are NaN but for their sequences, and each sequence as a dense call of its own.
#pragma once

#include <span>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {

using imbrex::position;
using starts = std::vector<position>;

struct varlen_case {
    char const* name;
    starts q_starts;
    starts kv_starts;
    index q_tokens;     // of the tensors: more than the last start leaves a tail
    index kv_tokens;
    index q_heads = 1;
    index kv_heads = 1;
    index head_dim = 64;
    rule sees = rule::full;
    order memory = order::bshd;
};
inline std::ostream& operator<<(std::ostream& text, varlen_case const& c) { return text << c.name; }

// The starts of sequences of these lengths.
inline starts starts_of(std::initializer_list<position> lengths, position first = 0) {
    starts s{first};
    for (position const n : lengths) s.push_back(s.back() + n);
    return s;
}

// One sequence of packed tokens, as a dense tensor.
template <class T>
tensor_view<T> sequence_of(tensor_view<T> t, starts const& at, std::size_t s) {
    return {t.row(0, at[s], 0), {1, at[s + 1] - at[s], t.shape.heads, t.shape.head_dim}, t.strides};
}

template <class P>
struct packed_tensors {
    varlen_case const& c;
    tensor<typename P::query> q;
    tensor<typename P::key> k;
    tensor<typename P::value> v;
    tensor<typename P::output> out;
    guarded<float> lse;

    explicit packed_tensors(varlen_case const& x, guard where = guard::after)
        : c{x},
          q{{1, x.q_tokens, x.q_heads, x.head_dim}, x.memory, where},
          k{{1, x.kv_tokens, x.kv_heads, x.head_dim}, x.memory, where},
          v{{1, x.kv_tokens, x.kv_heads, x.head_dim}, x.memory, where},
          out{{1, x.q_tokens, x.q_heads, x.head_dim}, x.memory, where},
          lse{static_cast<std::size_t>(x.q_tokens * x.q_heads), where} {}

    std::size_t sequences() const { return c.q_starts.size() - 1; }
    auto queries() const { return imbrex::packed_queries{q.view, c.q_starts}; }
    auto kv() const { return imbrex::packed_kv{k.view, v.view, c.kv_starts}; }
    auto lse_view() const { return imbrex::bhs(lse.data(), q.view.shape); }
    imbrex::row_stats_view<float> lse_of(std::size_t s) const {
        auto l = lse_view();
        l.data = l.at(0, 0, c.q_starts[s]);
        return l;
    }
    visibility visible(std::size_t s) const {
        return c.sees == rule::full       ? sees_everything()
               : c.sees == rule::top_left ? sees_top_left()
                                          : sees_bottom_right(c.q_starts[s + 1] - c.q_starts[s], c.kv_starts[s + 1] - c.kv_starts[s]);
    }
    // The call, with a workspace of its own.
    imbrex::status run(imbrex::options o = {}) const {
        o.lse = lse_view();
        return with_rule(c.sees, [&](auto const& r) { return planned(queries(), kv(), out.view, r, o); });
    }
};

class VarlenFixture : public Seeded {
protected:
    // Only the tokens of sequences; the others stay NaN.
    template <class P>
    void fill_sequences(packed_tensors<P> const& t) {
        for (std::size_t s = 0; s < t.sequences(); ++s) {
            fill(sequence_of(t.q.view, t.c.q_starts, s));
            fill(sequence_of(t.k.view, t.c.kv_starts, s));
            fill(sequence_of(t.v.view, t.c.kv_starts, s));
        }
    }

    template <class P>
    void expect_right(packed_tensors<P> const& t) {
        double const scale = 1 / std::sqrt(static_cast<double>(t.c.head_dim));
        for (std::size_t s = 0; s < t.sequences(); ++s) {
            SCOPED_TRACE(testing::Message() << "sequence " << s);
            auto const v = sequence_of(t.v.view, t.c.kv_starts, s);
            largest_errors e;
            measure(sequence_of(t.q.view, t.c.q_starts, s), sequence_of(t.k.view, t.c.kv_starts, s), v,
                    sequence_of(t.out.view, t.c.q_starts, s), t.lse_of(s), t.visible(s), scale, e);
            expect_small<typename P::score>(e, largest(v));
        }
    }

    // Rows of no sequence are as they were: all 0xff.
    template <class P>
    void expect_others_unwritten(packed_tensors<P> const& t) {
        for_each_row(t.out.view, [&](index, index i, index h, auto const* row) {
            if (i >= t.c.q_starts.front() && i < t.c.q_starts.back()) return;
            auto const* const bytes = reinterpret_cast<unsigned char const*>(row);
            std::size_t const n = static_cast<std::size_t>(t.c.head_dim) * sizeof(*row);
            EXPECT_TRUE(std::all_of(bytes, bytes + n, [](unsigned char b) { return b == 0xff; })) << "token " << i;
            EXPECT_TRUE(std::isnan(*t.lse_view().at(0, h, i))) << "token " << i;
        });
    }
};

}    // namespace imbrex_test
