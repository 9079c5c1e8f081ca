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
                           std::function<bool(index query, index key)> const& sees, head_effects<S> const& effects) {
    for (index j = 0; j < keys.rows; ++j) {
        bool seen = false;
        for (index i = q.rows - 1; i >= 0 && !seen; --i) seen = sees(i, j);
        if (seen) continue;
        for (index d = 0; d < keys.cols; ++d) keys(j, d) = 0;
        for (index d = 0; d < values.cols; ++d) values(j, d) = 0;
    }
    S const nothing = -std::numeric_limits<S>::infinity();
    dense<S> weights = product<S>(eigen(q), eigen(keys).transpose());
    weights *= scale;
    head_outcome<S> result{{q.rows, values.cols}, {}};
    for (index i = 0; i < q.rows; ++i) {
        S highest = effects.sink;
        for (index j = 0; j < keys.rows; ++j) {
            if (!sees(i, j)) {
                weights(i, j) = nothing;
            } else if (effects.change) {
                weights(i, j) = effects.change(i, j, weights(i, j));
            }
            highest = std::max(highest, weights(i, j));
        }
        S sum = effects.sink != nothing ? std::exp(effects.sink - highest) : S(0);
        for (index j = 0; j < keys.rows; ++j) {
            weights(i, j) = weights(i, j) != nothing ? std::exp(weights(i, j) - highest) : S(0);
            sum += weights(i, j);
        }
        if (sum != 0) weights.row(i) /= sum;
        result.lse.push_back(sum != 0 ? highest + std::log(sum) : nothing);
    }
    Eigen::Map<dense<S>>{result.out.data.data(), q.rows, values.cols} = product<S>(weights, eigen(values));
    return result;
}

template head_outcome<float> naive_head(matrix<float> const&, matrix<float>, matrix<float>, float,
                                        std::function<bool(index, index)> const&, head_effects<float> const&);
template head_outcome<double> naive_head(matrix<double> const&, matrix<double>, matrix<double>, double,
                                        std::function<bool(index, index)> const&, head_effects<double> const&);
template head_outcome<long double> naive_head(matrix<long double> const&, matrix<long double>, matrix<long double>, long double,
                                        std::function<bool(index, index)> const&, head_effects<long double> const&);

}    // namespace imbrex_test
