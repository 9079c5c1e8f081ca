// Runs a case of the dynamic rule and compares it with plain loops that ask keep and transform for one score at a time.
#pragma once

#include <random>
#include <string>

#include "attention_cases.hpp"
#include "dynamic_case.hpp"

namespace imbrex_test {

inline attention_case shapes_of(dynamic_case const& c) {
    return {.batch = c.batch,
            .q_tokens = c.q_tokens,
            .kv_tokens = c.kv_tokens,
            .q_heads = c.q_heads,
            .kv_heads = c.kv_heads,
            .head_dim = c.head_dim,
            .head_dim_v = c.head_dim_v,
            .memory = c.bshd != 0 ? order::bshd : order::bhsd};
}

inline place place_of(dynamic_case const& c, index b, index h, index i, index j) { return {b, h, i, j, c.q_tokens, c.kv_tokens}; }

inline dynamic_call dynamic_call_of(dynamic_case const& c) {
    auto const table = [&](auto const& says) {
        return counts{c.batch, c.q_heads, c.q_tokens, c.kv_tokens,
                      [&](index b, index h, index i, index j) { return says(place_of(c, b, h, i, j)); }};
    };
    return {c.what, static_cast<advice>(c.given), table([&](place const& p) { return c.what.keeps(p); }),
            table([&](place const& p) { return !c.what.hides(p); }), c.q_heads};
}

inline double scale_of(dynamic_case const& c) {
    return c.scale == 0 ? 1 / std::sqrt(static_cast<double>(c.head_dim)) : static_cast<double>(c.scale) / 1000;
}

// N(0, 1) but for NaN in the keys and values that nobody sees.
template <class P>
void fill_case(dynamic_case const& c, dynamic_call const& rule, call_tensors<P> const& t) {
    std::mt19937 engine{static_cast<std::uint32_t>(c.seed)};
    std::normal_distribution<float> normal;
    auto const fill = [&]<class T>(tensor_view<T> view) {
        for_each_row(view, [&](index, index, index, T* row) {
            for (index d = 0; d < view.shape.head_dim; ++d) row[d] = imbrex::round_to<T>(normal(engine));
        });
    };
    fill(t.q.view);
    fill(t.k.view);
    fill(t.v.view);
    index const group = c.q_heads / c.kv_heads;
    auto const seen_by = [&](index b, index j, index kv_head) {
        for (index h = kv_head * group; h < (kv_head + 1) * group; ++h) {
            if (rule.kept.count(b, h, 0, c.q_tokens, j, j + 1) == 0) continue;
            for (index i = 0; i < c.q_tokens; ++i) {
                if (rule.kept.count(b, h, i, i + 1, j, j + 1) + rule.unhidden.count(b, h, i, i + 1, j, j + 1) == 2) return true;
            }
        }
        return false;
    };
    for_each_row(t.k.view, [&](index b, index j, index kv_head, auto* key) {
        bool seen = seen_by(b, j, kv_head);
        for (index other = 0; other < c.batch && c.one_kv != 0; ++other) seen = seen || seen_by(other, j, kv_head);
        if (seen) return;
        std::fill_n(key, c.head_dim, imbrex::round_to<typename P::key>(std::numeric_limits<float>::quiet_NaN()));
        std::fill_n(t.v.view.row(b, j, kv_head), c.head_dim_v, imbrex::round_to<typename P::value>(std::numeric_limits<float>::quiet_NaN()));
    });
}

// The library's call with the dynamic rule. Defined in instances/dynamic_*.cpp for the precisions of dynamic_case.
template <class P>
imbrex::status attend_dynamically(dynamic_case const& c, dynamic_call const& rule, call_tensors<P> const& t,
                                  imbrex::dense_kv<typename P::key, typename P::value> const& kv);

// What is wrong with the result of a case; nothing if it is right.
template <class P>
std::string fault_of(dynamic_case const& c);

// f(precision) with the case's own.
template <class F>
auto with_precision_of(dynamic_case const& c, F const& f) {
    using imbrex::bf16;
    switch (c.precision) {
        case 1: return f(imbrex::precision<bf16>{});
        case 2: return f(imbrex::precision<imbrex::f16>{});
        case 3: return f(imbrex::precision<double>{});
        case 4: return f(imbrex::precision<float, bf16, bf16, float>{});
        default: return f(imbrex::precision<float>{});
    }
}
inline std::string fault_of(dynamic_case const& c) {
    return with_precision_of(c, [&]<class P>(P) { return fault_of<P>(c); });
}

}    // namespace imbrex_test
