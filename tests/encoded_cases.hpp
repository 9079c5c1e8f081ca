// What the tests of encoded keys and values share: encoded tensors with the numbers that they stand for, and what a call on them
// is held to, attention over those numbers in double precision.
#pragma once

#include "attention_cases.hpp"
#include "imbrex/kv/encode.hpp"

namespace imbrex_test {

inline constexpr index encoded_q_heads = 8, encoded_kv_heads = 2;

template <class E>
shape4 in_units(shape4 s) {
    s.head_dim = imbrex::row_units<E>(s.head_dim);
    return s;
}

// Bytes that are NaN in every encoding that has one: all bits set; a block's scale first.
template <class E>
void fill_with_nan(tensor<E> const& t) {
    std::memset(static_cast<void*>(t.memory.data()), 0xff, t.memory.size() * sizeof(E));
}

struct asked {
    tensor<float> q, out;
    guarded<float> lse;

    asked(index batch, index q_tokens, index head_dim, index head_dim_v)
        : q{{batch, q_tokens, encoded_q_heads, head_dim}, order::bshd},
          out{{batch, q_tokens, encoded_q_heads, head_dim_v}, order::bshd},
          lse{static_cast<std::size_t>(batch * q_tokens * encoded_q_heads)} {}
    imbrex::options options() const { return {.lse = imbrex::bhs(lse.data(), q.view.shape)}; }
};

// Integer units round queries and weights to 16 bits.
enum class numbers_are { rounded_as_floats, rounded_to_16_bits };

// That the call came to attention over the numbers, each sequence with the keys [first, length).
inline void expect_attention_over(asked const& a, tensor<float> const& k, tensor<float> const& v, std::vector<imbrex::position> const& n, index held,
                         numbers_are of = numbers_are::rounded_as_floats) {
    for (std::size_t s = 0; s < n.size(); ++s) {
        SCOPED_TRACE(testing::Message() << "sequence " << s << " of " << n[s] << " keys");
        auto const b = static_cast<index>(s);
        index const first = std::max<index>(0, n[s] - held);
        auto const one = [&](tensor_view<float> t, index from, index tokens) {
            return imbrex::strided(t.row(t.shape.batch == 1 ? 0 : b, from, 0), {1, tokens, t.shape.heads, t.shape.head_dim}, t.strides);
        };
        index const q_tokens = a.q.view.shape.tokens, keys = n[s] - first;
        largest_errors e;
        measure(one(a.q.view, 0, q_tokens), one(k.view, first, keys), one(v.view, first, keys), one(a.out.view, 0, q_tokens),
                imbrex::bhs(a.lse.data() + b * q_tokens * encoded_q_heads, {1, q_tokens, encoded_q_heads, 1}),
                [&](index, index, index i, index j) { return keys - j >= q_tokens - i; },
                1 / std::sqrt(static_cast<double>(k.view.shape.head_dim)), e);
        if (of == numbers_are::rounded_as_floats) {
            expect_small<float>(e, largest(v.view));
        } else {
            EXPECT_LE(e.ours, 1e-4 * largest(a.out.view));
            EXPECT_LE(e.lse, 1e-4);
        }
    }
}

// The rows of `dense` in pages, in random order; slots that are not used are NaN.
template <class E>
tensor<E> in_pages(tensor<E> const& dense, std::vector<imbrex::position> const& n, index page_size, index pages, std::vector<imbrex::position> const& ids,
                          index width) {
    tensor<E> pool{{pages, page_size, encoded_kv_heads, dense.view.shape.head_dim}, order::bshd};
    fill_with_nan(pool);
    for (std::size_t s = 0; s < n.size(); ++s) {
        for (index j = 0; j < n[s]; ++j) {
            imbrex::position const page = ids[s * static_cast<std::size_t>(width) + static_cast<std::size_t>(j / page_size)];
            for (index h = 0; h < encoded_kv_heads; ++h) {
                std::copy_n(dense.view.row(static_cast<index>(s), j, h), dense.view.shape.head_dim,
                            pool.view.row(page, j % page_size, h));
            }
        }
    }
    return pool;
}

}    // namespace imbrex_test
