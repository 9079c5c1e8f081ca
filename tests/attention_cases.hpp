// What the attention tests are written in: cases, tensors between guard pages, and the accuracy rule.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <sstream>
#include <string>
#include <type_traits>

#include "guard.hpp"
#include "imbrex/imbrex.hpp"
#include "instances/instances.hpp"
#include "reference.hpp"

namespace imbrex_test {

// IMBREX_TEST_SEED in the environment, else always the same.
inline std::uint32_t test_seed() {
    char const* const text = std::getenv("IMBREX_TEST_SEED");
    return text == nullptr ? 20250611u : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

// f(batch, token, head, row)
template <class T, class F>
void for_each_row(tensor_view<T> t, F const& f) {
    for (index b = 0; b < t.shape.batch; ++b) {
        for (index i = 0; i < t.shape.tokens; ++i) {
            for (index h = 0; h < t.shape.heads; ++h) f(b, i, h, t.row(b, i, h));
        }
    }
}

enum class rule { full, top_left, bottom_right };
enum class order { bhsd, bshd };

struct attention_case {
    index batch = 1;
    index q_tokens = 1;
    index kv_tokens = 1;
    index q_heads = 1;
    index kv_heads = 1;
    index head_dim = 64;
    index head_dim_v = 0;    // 0: the same as head_dim
    rule sees = rule::full;
    order memory = order::bhsd;

    shape4 q() const { return {batch, q_tokens, q_heads, head_dim}; }
    shape4 k() const { return {batch, kv_tokens, kv_heads, head_dim}; }
    shape4 v() const { return {batch, kv_tokens, kv_heads, head_dim_v == 0 ? head_dim : head_dim_v}; }
    shape4 out() const { return {batch, q_tokens, q_heads, v().head_dim}; }
};

// Also the name of a parametrised test, so letters, digits and _ only.
inline std::ostream& operator<<(std::ostream& text, attention_case const& c) {
    char const* const rules[] = {"full", "top_left", "bottom_right"};
    return text << "B" << c.batch << "_H" << c.q_heads << "_K" << c.kv_heads << "_Q" << c.q_tokens << "_KV" << c.kv_tokens << "_D" << c.head_dim
                << "_V" << c.v().head_dim << "_" << rules[static_cast<int>(c.sees)] << (c.memory == order::bhsd ? "_bhsd" : "_bshd");
}
inline std::string name_of_case(testing::TestParamInfo<attention_case> const& info) {
    std::ostringstream text;
    text << info.param;
    return text.str();
}

inline visibility visibility_of(attention_case const& c) {
    return c.sees == rule::full       ? sees_everything()
           : c.sees == rule::top_left ? sees_top_left()
                                      : sees_bottom_right(c.q_tokens, c.kv_tokens);
}

// f(the library's rule)
template <class F>
auto with_rule(rule r, F const& f) {
    if (r == rule::full) return f(imbrex::full{});
    return f(imbrex::causal{r == rule::top_left ? imbrex::align::top_left : imbrex::align::bottom_right});
}

// A contiguous tensor, guarded and full of NaN.
template <class T>
struct tensor {
    guarded<T> memory;
    tensor_view<T> view;

    tensor(shape4 shape, order o, guard where = guard::after)
        : memory{static_cast<std::size_t>(shape.elements()), where},
          view{o == order::bhsd ? imbrex::bhsd(memory.data(), shape) : imbrex::bshd(memory.data(), shape)} {}
};

// The tensors of one call.
template <class P>
struct call_tensors {
    tensor<typename P::query> q;
    tensor<typename P::key> k;
    tensor<typename P::value> v;
    tensor<typename P::output> out;
    guarded<float> lse;

    explicit call_tensors(attention_case const& c, guard where = guard::after)
        : q{c.q(), c.memory, where},
          k{c.k(), c.memory, where},
          v{c.v(), c.memory, where},
          out{c.out(), c.memory, where},
          lse{static_cast<std::size_t>(c.batch * c.q_heads * c.q_tokens), where} {}

    imbrex::dense_kv<typename P::key, typename P::value> kv() const { return {k.view, v.view}; }
};

// A call on a plan of its own, with a workspace of exactly the bytes that it asks for, guarded and poisoned.
template <class Tiles = imbrex::tuned_tiles, class Queries, class Kv, class O, class Rule>
imbrex::status planned(Queries const& q, Kv const& kv, tensor_view<O> out, Rule const& rule, imbrex::options o = {},
                       guard where = guard::after) {
    imbrex::plan p;
    if (imbrex::status const s = imbrex::plan_for<Tiles>(q, kv, out, p); !s) return s;
    guarded<std::byte> workspace{imbrex::workspace_bytes(p, o.executor.max_workers()), where};
    o.workspace = workspace;
    return imbrex::attention(p, q, kv, out, rule, o);
}

template <class Tiles = imbrex::tuned_tiles, class P>
imbrex::status planned(call_tensors<P> const& t, rule r, imbrex::options o = {}, guard where = guard::after) {
    o.lse = imbrex::bhs(t.lse.data(), t.q.view.shape);
    return with_rule(r, [&](auto const& rule) { return planned<Tiles>(t.q.view, t.kv(), t.out.view, rule, o, where); });
}

#define EXPECT_OK(call)                                                                    \
    do {                                                                                   \
        imbrex::status const status_of_call = (call);                                      \
        EXPECT_TRUE(status_of_call.ok()) << status_of_call.message().c_str();              \
    } while (false)
#define ASSERT_OK(call)                                                                    \
    do {                                                                                   \
        imbrex::status const status_of_call = (call);                                      \
        ASSERT_TRUE(status_of_call.ok()) << status_of_call.message().c_str();              \
    } while (false)

template <class T>
bool same_bits(guarded<T> const& a, guarded<T> const& b) {
    return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Half a unit in the last place of x; 0 where the output is as wide as the sums.
template <class T>
double half_ulp(double x) {
    if constexpr (sizeof(T) > 2) return 0;
    constexpr int fraction_bits = std::is_same_v<T, imbrex::f16> ? 10 : 7;
    constexpr int lowest_exponent = std::is_same_v<T, imbrex::f16> ? -14 : -126;
    int const exponent = x == 0 ? lowest_exponent : std::max(lowest_exponent, std::ilogb(x));
    return std::ldexp(0.5, exponent - fraction_bits);
}

template <class T>
double largest(tensor_view<T> t) {
    double m = 0;
    for_each_row(t, [&](index, index, index, T const* row) {
        for (index d = 0; d < t.shape.head_dim; ++d) m = std::max(m, std::abs(imbrex::to_double(row[d])));
    });
    return m;
}

// The accuracy rule of the library. Against the naive computation in a wider type on the same (rounded) inputs, the largest error
// over the tensor is at most twice that of the naive computation in the scores' own type + 2e-6 max|V|, and half an ulp of a
// 16-bit output; strict: besides at most 4e-6 max|V|. The log-sum-exp: 1e-5 of max(1, |lse|).
// Where the wide unit multiplies bf16 in pairs or on tiles, the naive computation rounds its weights to bf16 too.
// f64 is held to the same, scaled from f32's epsilon to its own (but for the log-sum-exp, which is an f32 there too).
enum class accuracy { rule, strict };

struct largest_errors {
    double ours = 0;    // beyond the rounding of the output
    double naive = 0;
    double lse = 0;     // relative to max(1, |lse|)
};

inline double lse_error(double ours, double right) {
    if (ours == right) return 0;
    if (std::isinf(ours) || std::isinf(right)) return std::numeric_limits<double>::infinity();
    return std::abs(ours - right) / std::max(1.0, std::abs(right));
}

// What becomes of weights in the wide unit that this processor has for a precision.
template <class P>
weights weights_of_wide_unit() {
    imbrex::plan p;
    EXPECT_TRUE(imbrex::make_plan<P>({.q_tokens = 64, .kv_tokens = 64, .head_dim = 64}, p).ok());
    return p.wide == imbrex::wide_kind::amx_tiles    ? weights::as_bf16_of_whole_powers
           : p.wide == imbrex::wide_kind::bf16_pairs ? weights::as_bf16
                                                     : weights::as_computed;
}

// And in the unit of few rows.
template <class P>
weights weights_of_narrow_unit() {
    return imbrex::values_in_pairs<P> ? weights::as_bf16 : weights::as_computed;
}

// And in the unit that has so many rows of a kv head.
template <class P>
weights weights_of_rows(index rows) {
    return rows > imbrex::tune::narrow_rows ? weights_of_wide_unit<P>() : weights_of_narrow_unit<P>();
}

template <class Q, class K, class V, class O>
void measure(tensor_view<Q> q, tensor_view<K> k, tensor_view<V> v, tensor_view<O> out, imbrex::row_stats_view<float> lse_of,
             visibility const& sees, double scale, largest_errors& e, score_effects const& effects = {}) {
    using S = typename imbrex::precision<Q, K, V, O>::score;
    using wide = std::conditional_t<std::is_same_v<S, double>, long double, double>;
    auto const exact = naive_attention<wide>(q, k, v, scale, sees, effects);
    index const rows = q.shape.tokens * (q.shape.heads / k.shape.heads);
    auto const naive = naive_attention<S>(q, k, v, scale, sees, effects, weights_of_rows<imbrex::precision<Q, K, V, O>>(rows));
    for_each_row(out, [&](index b, index i, index h, O const* row) {
        SCOPED_TRACE(testing::Message() << "batch " << b << ", query " << i << ", head " << h);
        for (index d = 0; d < out.shape.head_dim; ++d) {
            wide const right = exact.output(b, i, h, d);
            double const ours = imbrex::to_double(row[d]);
            ASSERT_FALSE(std::isnan(ours)) << "column " << d;
            double const rounding = std::max(half_ulp<O>(ours), half_ulp<O>(static_cast<double>(right)));
            e.ours = std::max(e.ours, static_cast<double>(std::abs(static_cast<wide>(ours) - right)) - rounding);
            e.naive = std::max(e.naive, static_cast<double>(std::abs(static_cast<wide>(naive.output(b, i, h, d)) - right)));
        }
        double const lse = *lse_of.at(b, h, i);
        ASSERT_FALSE(std::isnan(lse));
        e.lse = std::max(e.lse, lse_error(lse, static_cast<double>(exact.log_sum_exp(b, h, i))));
    });
}

template <class P>
void measure(call_tensors<P> const& t, visibility const& sees, double scale, largest_errors& e, score_effects const& effects = {}) {
    measure(t.q.view, t.k.view, t.v.view, t.out.view, imbrex::bhs(t.lse.data(), t.q.view.shape), sees, scale, e, effects);
}

// max_value: max|V|.
template <class Score>
void expect_small(largest_errors const& e, double max_value, accuracy a = accuracy::rule) {
    double const value = max_value * (std::is_same_v<Score, double> ? 0x1p-29 : 1);
    EXPECT_LE(e.ours, 2 * e.naive + 2e-6 * value) << "naive: " << e.naive << ", max|V|: " << value;
    if (a == accuracy::strict) { EXPECT_LE(e.ours, 4e-6 * value) << "max|V|: " << value; }
    EXPECT_LE(e.lse, 1e-5);
}

template <class P>
void expect_accurate(call_tensors<P> const& t, visibility const& sees, accuracy a = accuracy::rule, std::optional<double> scale = {},
                     score_effects const& effects = {}) {
    largest_errors e;
    measure(t, sees, scale.value_or(1 / std::sqrt(static_cast<double>(t.q.view.shape.head_dim))), e, effects);
    expect_small<typename P::score>(e, largest(t.v.view), a);
}

// A test whose failures tell the seed of its random numbers.
class Seeded : public testing::Test {
protected:
    Seeded() { RecordProperty("seed", std::to_string(test_seed())); }

    // From N(0, 1), with all the digits of a double.
    double normal() { return distribution_(engine_); }

    template <class T>
    void fill(tensor_view<T> t, double amplitude = 1) {
        for_each_row(t, [&](index, index, index, T* row) {
            for (index d = 0; d < t.shape.head_dim; ++d) row[d] = imbrex::round_to<T>(amplitude * normal());
        });
    }
    template <class P>
    void fill(call_tensors<P> const& t, double amplitude = 1) {
        fill(t.q.view, amplitude);
        fill(t.k.view, amplitude);
        fill(t.v.view);
    }

    // As fill, with scores so large that the softmax is nearly one-hot, but for keys that come in pairs of nearly the same score.
    // So every row's error is that of its scores, and the largest one does not hang on which row happens to have a tie.
    template <class P>
    void fill_with_near_ties(call_tensors<P> const& t, double amplitude) {
        fill(t, amplitude);
        for_each_row(t.k.view, [&](index b, index j, index h, auto* row) {
            if (j % 2 == 0) return;
            auto const* const twin = t.k.view.row(b, j - 1, h);
            for (index d = 0; d < t.k.view.shape.head_dim; ++d) {
                row[d] = imbrex::round_to<typename P::key>(imbrex::to_double(twin[d]) * (1 + 0.003 * normal()));
            }
        });
    }

    // A call that matches f64, whose every tensor and workspace ends at a forbidden page, or else begins at one.
    template <class P, class Tiles = imbrex::tuned_tiles>
    void expect_right(attention_case const& c, accuracy a = accuracy::rule) {
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<P> const at_end{c, guard::after}, at_begin{c, guard::before};
        fill(at_end);
        std::ranges::copy(at_end.q.memory, at_begin.q.memory.data());
        std::ranges::copy(at_end.k.memory, at_begin.k.memory.data());
        std::ranges::copy(at_end.v.memory, at_begin.v.memory.data());
        ASSERT_OK(planned<Tiles>(at_end, c.sees, {}, guard::after));
        ASSERT_OK(planned<Tiles>(at_begin, c.sees, {}, guard::before));
        expect_accurate(at_end, visibility_of(c), a);
        EXPECT_TRUE(same_bits(at_end.out.memory, at_begin.out.memory)) << "the alignment of memory changes the result";
        EXPECT_TRUE(same_bits(at_end.lse, at_begin.lse)) << "the alignment of memory changes the log-sum-exp";
    }

private:
    std::mt19937 engine_{test_seed()};
    std::normal_distribution<double> distribution_;
    testing::ScopedTrace trace_{__FILE__, __LINE__, "IMBREX_TEST_SEED=" + std::to_string(test_seed())};
};

}    // namespace imbrex_test
