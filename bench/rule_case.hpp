// One rule raced against the machine's FMA limit, or against another way to the same result. What the rule means is written down
// again as a plain function of sequence, head, query and key: rows of the result are checked against it in f64.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "attention_case.hpp"

namespace imbrex_bench {

inline constexpr double hidden = -std::numeric_limits<double>::infinity();

// The score of head h's query i and key j of sequence b, from its scaled product; -inf where the query does not see the key.
using score_definition = std::function<double(double product, index b, index h, index i, index j)>;

// Row i of head h of sequence b of self- or cross-attention, in f64.
inline std::vector<double> defined_row(tensors<float> const& t, shape const& s, score_definition const& define, index b, index i,
                                       index h) {
    auto const q = t.q.input(), k = t.k.input(), v = t.v.input();
    std::vector<double> score(static_cast<std::size_t>(s.kv_tokens)), o(static_cast<std::size_t>(s.head_dim));
    double most = hidden, sum = 0;
    for (index j = 0; j < s.kv_tokens; ++j) {
        double x = 0;
        for (index d = 0; d < s.head_dim; ++d) {
            x += static_cast<double>(q.row(b, i, h)[d]) * static_cast<double>(k.row(b, j, h / s.group())[d]);
        }
        score[static_cast<std::size_t>(j)] = define(x / std::sqrt(static_cast<double>(s.head_dim)), b, h, i, j);
        most = std::max(most, score[static_cast<std::size_t>(j)]);
    }
    for (index j = 0; j < s.kv_tokens; ++j) {
        double const x = score[static_cast<std::size_t>(j)], p = x == hidden ? 0.0 : std::exp(x - most);
        sum += p;
        for (index d = 0; d < s.head_dim; ++d) {
            o[static_cast<std::size_t>(d)] += p * static_cast<double>(v.row(b, j, h / s.group())[d]);
        }
    }
    for (double& x : o) x /= sum > 0 ? sum : 1;
    return o;
}

// The largest error of sampled rows; NaN if any is not a number.
inline double error_of_rows(tensors<float> const& t, shape const& s, score_definition const& define) {
    normal_numbers random{11};
    double worst = 0;
    for (int n = 0; n < 9; ++n) {
        index const b = random.below(s.batch), h = random.below(s.q_heads);
        index const i = n % 3 == 0 ? 0 : n % 3 == 1 ? s.q_tokens - 1 : random.below(s.q_tokens);
        std::vector<double> const wanted = defined_row(t, s, define, b, i, h);
        for (index d = 0; d < s.head_dim; ++d) {
            double const error = std::abs(static_cast<double>(t.out.input().row(b, i, h)[d]) - wanted[static_cast<std::size_t>(d)]);
            if (!(error <= worst)) worst = error;
        }
    }
    return worst;
}

// Pairs of a query and a key that it sees, over all sequences and heads.
inline double visible_pairs(shape const& s, std::function<bool(index b, index h, index i, index j)> const& sees) {
    double pairs = 0;
    for (index b = 0; b < s.batch; ++b) {
        for (index h = 0; h < s.q_heads; ++h) {
            for (index i = 0; i < s.q_tokens; ++i) {
                for (index j = 0; j < s.kv_tokens; ++j) pairs += sees(b, h, i, j) ? 1 : 0;
            }
        }
    }
    return pairs;
}

// A call on one rule with its plan and workspace.
template <class Rule>
struct rule_call {
    shape dims;
    Rule rule;
    tensors<float>& data;
    imbrex::plan plan{};
    std::vector<std::byte> workspace{};

    imbrex::status prepare() {
        if (imbrex::status const made = plan_of<float>(dims, plan); !made) return made;
        workspace.resize(imbrex::workspace_bytes(plan));
        return (*this)();
    }
    imbrex::status operator()() {
        return imbrex::attention(plan, data.q.input(), data.kv(), data.out.view(), rule, {.workspace = workspace});
    }
    contestant turn() {
        return {.call = [this] { static_cast<void>((*this)().ok()); }};
    }
};

inline constexpr double largest_rule_error = 5e-5;    // of values of N(0, 1): about 1e-5 of the largest |V|

// Prepares, runs and checks; false, with the benchmark skipped, when something is wrong.
template <class Rule>
bool ready(benchmark::State& state, rule_call<Rule>& call, score_definition const& define) {
    auto const fail = [&](std::string const& why) {
        state.SetIterationTime(0);
        state.SkipWithError(why.c_str());
        return false;
    };
    if (imbrex::status const s = call.prepare(); !s) return fail(std::string(s.message().view()));
    double const error = error_of_rows(call.data, call.dims, define);
    state.counters["error"] = error;
    return error <= largest_rule_error || fail("wrong result: off by " + std::to_string(error));
}

// counters: percent_of_peak of the useful flops of `pairs` visible pairs (of all heads and sequences).
template <class Rule>
void race_with_peak(benchmark::State& state, rule_call<Rule>& call, double pairs) {
    contestant ours = call.turn(), yardstick = fma_yardstick();
    race{}.run(yardstick, ours);
    double const flops = 4.0 * static_cast<double>(call.dims.head_dim) * pairs;
    std::vector<double> const share = ratios(yardstick.seconds, ours.seconds);
    state.SetIterationTime(median(ours.seconds));
    state.counters["flops"] = flops;
    state.counters["percent_of_peak"] = 100 * median(share) * flops / fma_slice_flops;
    state.counters["percent_spread"] = 100 * spread(share);
}

// counters: time_over_other, the median of the ratios within a round, divided by `expected`.
inline void race_with_other(benchmark::State& state, contestant ours, contestant other, double expected = 1) {
    race{.budget_seconds = 1.5}.run({&ours, &other});
    std::vector<double> const ratio = ratios(ours.seconds, other.seconds);
    state.SetIterationTime(median(ours.seconds));
    state.counters["time_over_other"] = median(ratio) / expected;
    state.counters["percent_spread"] = 100 * spread(ratio);
}

}    // namespace imbrex_bench
