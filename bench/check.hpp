// Is the result right? Sampled rows of the output against plain attention in f64, sharing no code with the library.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "problem.hpp"

namespace imbrex_bench {

// An output row, and how far each of its numbers moves, as a root of squares, when each weight moves by its own size.
struct right_row {
    std::vector<double> out, spread;
};

// Row `i` of head `h` of sequence `b`, from the stored (rounded) inputs.
template <class T, class Rule>
right_row reference_row(tensors<T> const& t, shape const& s, Rule const& rule, index b, index i, index h) {
    index const seen = visible_keys(rule, s, i), g = h / s.group();
    auto const q = t.q.input(), k = t.k.input(), v = t.v.input();
    std::vector<double> score(static_cast<std::size_t>(seen));
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (index j = 0; j < seen; ++j) {
        double x = 0;
        for (index d = 0; d < s.head_dim; ++d) x += imbrex::to_double(q.row(b, i, h)[d]) * imbrex::to_double(k.row(b, j, g)[d]);
        score[static_cast<std::size_t>(j)] = x / std::sqrt(static_cast<double>(s.head_dim));
        most = std::max(most, score[static_cast<std::size_t>(j)]);
    }
    std::vector<double> o(static_cast<std::size_t>(s.head_dim)), spread(o.size());
    for (index j = 0; j < seen; ++j) {
        double const p = std::exp(score[static_cast<std::size_t>(j)] - most);
        sum += p;
        for (index d = 0; d < s.head_dim; ++d) o[static_cast<std::size_t>(d)] += p * imbrex::to_double(v.row(b, j, g)[d]);
    }
    for (double& x : o) x /= seen > 0 ? sum : 1;
    for (index j = 0; j < seen; ++j) {
        double const p = std::exp(score[static_cast<std::size_t>(j)] - most) / sum;
        for (index d = 0; d < s.head_dim; ++d) {
            auto const at = static_cast<std::size_t>(d);
            spread[at] = std::hypot(spread[at], p * (imbrex::to_double(v.row(b, j, g)[d]) - o[at]));
        }
    }
    return {o, spread};
}

struct accuracy {
    double error = 0;      // the largest, over the sampled rows
    double allowed = 0;    // there
    bool passed = true;
};

// 1e-5 of the largest |V| (a normal number out of 2^16: about 4.3), and half an ulp of the output where it is of 16 bits; where
// weights are rounded to bf16, by 2^-9 at most and independently of each other, besides 4 x 2^-9 of the spread. The first and the
// last row of each sampled head are always among the samples.
template <class T, class Rule>
accuracy check_rows(tensors<T> const& t, shape const& s, Rule const& rule) {
    constexpr double largest_value = 4.3;
    double const half_ulp = sizeof(T) == 4 ? 0.0 : std::is_same_v<T, imbrex::bf16> ? 0x1p-8 : 0x1p-11;
    double const of_weights = imbrex::pairs_unit<imbrex::precision<T>> ? 4 * 0x1p-9 : 0.0;
    normal_numbers random{7};
    accuracy a;
    for (int n = 0; n < 12; ++n) {
        index const b = random.below(s.batch), h = random.below(s.q_heads);
        index const i = n % 3 == 0 ? 0 : n % 3 == 1 ? s.q_tokens - 1 : random.below(s.q_tokens);
        right_row const wanted = reference_row(t, s, rule, b, i, h);
        T const* const got = t.out.input().row(b, i, h);
        for (index d = 0; d < s.head_dim; ++d) {
            double const w = wanted.out[static_cast<std::size_t>(d)], spread = wanted.spread[static_cast<std::size_t>(d)];
            double const error = std::abs(imbrex::to_double(got[d]) - w);
            double const allowed = 1e-5 * largest_value + half_ulp * std::abs(w) + of_weights * spread;
            if (!(error <= allowed)) a.passed = false;    // NaN too
            if (!(error <= a.error)) a.error = error, a.allowed = allowed;
        }
    }
    return a;
}

}    // namespace imbrex_bench
