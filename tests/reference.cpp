#include "reference.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace imbrex_test {
namespace {

template <class S>
using dense = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class S>
Eigen::Map<dense<S> const> eigen(matrix<S> const& m) {
    return {m.data.data(), m.rows, m.cols};
}

// Eigen's blocked product; coefficient by coefficient in the type that only the check of f64 needs.
template <class S, class A, class B>
dense<S> product(A const& a, B const& b) {
    if constexpr (std::is_same_v<S, long double>) {
        return a.lazyProduct(b);
    } else {
        return a * b;
    }
}

}    // namespace

template <class S>
head_outcome<S> naive_head(matrix<S> const& q, matrix<S> keys, matrix<S> values, S scale,
                           std::function<bool(index query, index key)> const& sees, head_effects<S> const& effects,
                           weights rounding) {
    for (index j = 0; j < keys.rows; ++j) {
        bool seen = false;
        for (index i = q.rows - 1; i >= 0 && !seen; --i) seen = sees(i, j);
        if (seen) continue;
        for (index d = 0; d < keys.cols; ++d) keys(j, d) = 0;
        for (index d = 0; d < values.cols; ++d) values(j, d) = 0;
    }
    S const nothing = -std::numeric_limits<S>::infinity();
    dense<S> weight_matrix = product<S>(eigen(q), eigen(keys).transpose());
    weight_matrix *= scale;
    head_outcome<S> result{{q.rows, values.cols}, {}};
    for (index i = 0; i < q.rows; ++i) {
        auto* const weight_of = weight_matrix.row(i).data();
        S highest = effects.sink;
        for (index j = 0; j < keys.rows; ++j) {
            if (!sees(i, j)) {
                weight_of[j] = nothing;
            } else if (effects.change) {
                weight_of[j] = effects.change(i, j, weight_of[j]);
            }
            highest = std::max(highest, weight_of[j]);
        }
        S sum = effects.sink != nothing ? std::exp(effects.sink - highest) : S(0);
        S const unit = highest != nothing ? unit_of_weights(rounding, highest) : S(1);
        S used = sum * unit;
        for (index j = 0; j < keys.rows; ++j) {
            S const weight = weight_of[j] != nothing ? std::exp(weight_of[j] - highest) : S(0);
            weight_of[j] = rounded_weight(rounding, weight * unit);
            sum += weight;
            used += weight_of[j];
        }
        if (used != 0) weight_matrix.row(i) /= used;
        result.lse.push_back(sum != 0 ? highest + std::log(sum) : nothing);
    }
    Eigen::Map<dense<S>>{result.out.data.data(), q.rows, values.cols} = product<S>(weight_matrix, eigen(values));
    return result;
}

template head_outcome<float> naive_head(matrix<float> const&, matrix<float>, matrix<float>, float,
                                        std::function<bool(index, index)> const&, head_effects<float> const&, weights);
template head_outcome<double> naive_head(matrix<double> const&, matrix<double>, matrix<double>, double,
                                        std::function<bool(index, index)> const&, head_effects<double> const&, weights);
template head_outcome<long double> naive_head(matrix<long double> const&, matrix<long double>, matrix<long double>, long double,
                                        std::function<bool(index, index)> const&, head_effects<long double> const&, weights);

}    // namespace imbrex_test
