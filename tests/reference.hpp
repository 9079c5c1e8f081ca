// Naive attention with Eigen: the score matrix materialised, softmax row by row. In f64 (or wider) it is the oracle; in f32 it is
// the same-precision computation that the accuracy rule measures us against. It shares views and dtypes with the library, and no
// arithmetic, and it has its own idea of what causal means.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "imbrex/dtype.hpp"
#include "imbrex/view.hpp"

namespace imbrex_test {

using imbrex::index;
using imbrex::shape4;
using imbrex::tensor_view;

// Whether a query may see a key.
using visibility = std::function<bool(index batch, index q_head, index query, index key)>;

inline visibility sees_everything() {
    return [](index, index, index, index) { return true; };
}
inline visibility sees_top_left() {
    return [](index, index, index query, index key) { return key <= query; };
}
// The last query stands at the last key.
inline visibility sees_bottom_right(index q_tokens, index kv_tokens) {
    return [=](index, index, index query, index key) { return kv_tokens - key >= q_tokens - query; };
}

// What else becomes of scores: the scaled score as it changes (-inf hides the key), and the logit of a sink. Neither, by default.
struct score_effects {
    std::function<long double(index batch, index q_head, index query, index key, long double scaled)> change;
    std::function<long double(index q_head)> sink;
};

// What becomes of a weight before it meets its value. as_bf16: rounded to bf16, and the outputs divided by the sum of rounded ones,
// as a computation of bf16 by dot products of bf16 must do; the log-sum-exp is that of the weights as they were.
// as_bf16_of_whole_powers: likewise, of weights that are counted not from the row's largest score but from the whole power of two next
// to it, as a computation must that changes the power by its exponent alone.
enum class weights { as_computed, as_bf16, as_bf16_of_whole_powers };

// Eight bits of fraction with the leading one, to nearest.
template <class S>
S rounded_to_bf16(S x) {
    if (!std::isfinite(x) || x == 0) return x;
    int const exponent = std::ilogb(x);
    return std::ldexp(std::nearbyint(std::ldexp(x, 7 - exponent)), exponent - 7);
}

// What the weight of the largest score is before it is rounded; and what becomes of a weight.
template <class S>
S unit_of_weights(weights rounding, S highest) {
    S const octaves = highest / std::log(S(2));
    return rounding == weights::as_bf16_of_whole_powers ? std::exp2(octaves - std::round(octaves)) : S(1);
}
template <class S>
S rounded_weight(weights rounding, S weight) {
    return rounding == weights::as_computed ? weight : rounded_to_bf16(weight);
}

// Row after row. (Eigen stays in reference.cpp, which every test would have to compile otherwise.)
template <class S>
struct matrix {
    index rows = 0;
    index cols = 0;
    std::vector<S> data;

    matrix(index r, index c) : rows{r}, cols{c}, data(static_cast<std::size_t>(r * c)) {}
    S& operator()(index i, index j) { return data[static_cast<std::size_t>(i * cols + j)]; }
    S operator()(index i, index j) const { return data[static_cast<std::size_t>(i * cols + j)]; }
};

// One head: q tokens x head_dim; keys and values likewise. A row that sees nothing is 0, and its log-sum-exp -inf. A key that no
// query sees is not used. A sink takes part in the softmax, without a value. For float, double and long double.
template <class S>
struct head_outcome {
    matrix<S> out;
    std::vector<S> lse;
};
template <class S>
struct head_effects {
    std::function<S(index query, index key, S scaled)> change;
    S sink = -std::numeric_limits<S>::infinity();
};
template <class S>
head_outcome<S> naive_head(matrix<S> const& q, matrix<S> keys, matrix<S> values, S scale,
                           std::function<bool(index query, index key)> const& sees, head_effects<S> const& effects = {},
                           weights rounding = weights::as_computed);

// One head of a tensor in the precision S. A batch of 1 serves every sequence.
template <class S, class T>
matrix<S> head_of(tensor_view<T> t, index b, index head) {
    matrix<S> m(t.shape.tokens, t.shape.head_dim);
    for (index i = 0; i < t.shape.tokens; ++i) {
        auto const* const row = t.row(t.shape.batch == 1 ? 0 : b, i, head);
        for (index d = 0; d < t.shape.head_dim; ++d) m(i, d) = static_cast<S>(imbrex::to_double(row[d]));
    }
    return m;
}

// Heads in the order batch, query head.
template <class S>
struct outcome {
    index heads = 0;
    std::vector<head_outcome<S>> all;

    S output(index b, index token, index head, index d) const { return at(b, head).out(token, d); }
    S log_sum_exp(index b, index head, index token) const { return at(b, head).lse[static_cast<std::size_t>(token)]; }

private:
    head_outcome<S> const& at(index b, index head) const { return all[static_cast<std::size_t>(b * heads + head)]; }
};

// softmax(scale q kT) v in the precision S; effects are computed wider and rounded to S.
template <class S, class Q, class K, class V>
outcome<S> naive_attention(tensor_view<Q> q, tensor_view<K> k, tensor_view<V> v, double scale, visibility const& sees,
                           score_effects const& effects = {}, weights rounding = weights::as_computed) {
    outcome<S> result{q.shape.heads, {}};
    for (index b = 0; b < q.shape.batch; ++b) {
        for (index h = 0; h < q.shape.heads; ++h) {
            index const kv_head = h / (q.shape.heads / k.shape.heads);
            head_effects<S> own;
            if (effects.change) {
                own.change = [&effects, b, h](index i, index j, S s) { return static_cast<S>(effects.change(b, h, i, j, s)); };
            }
            if (effects.sink) own.sink = static_cast<S>(effects.sink(h));
            result.all.push_back(naive_head<S>(head_of<S>(q, b, h), head_of<S>(k, b, kv_head), head_of<S>(v, b, kv_head),
                                               static_cast<S>(scale), [&](index i, index j) { return sees(b, h, i, j); }, own, rounding));
        }
    }
    return result;
}

}    // namespace imbrex_test
