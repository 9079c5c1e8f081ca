// One case: a call of ours raced against the machine's limit and against Eigen, checked, and reported.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "naive.hpp"
#include "report.hpp"

namespace imbrex_bench {

enum class limit {
    fma,
    pairs,
    reads
};    // pairs: dot products of bf16; which of the machine's limits is the yardstick of the race
enum class rivals { none, eigen };

struct case_settings {
    limit yardstick = limit::fma;
    rivals against = rivals::eigen;
    double budget_seconds = 0.5;
};

template <class T, class Tiles = imbrex::tuned_tiles>
imbrex::status plan_of(shape const& s, imbrex::plan& p) {
    imbrex::problem problem{s.batch, s.q_tokens, s.kv_tokens, s.q_heads, s.kv_heads, s.head_dim, s.head_dim};
    if (s.order == layout::bshd && s.kv_heads > 1) problem.layout = imbrex::kv_layout::strided;
    return imbrex::make_plan<imbrex::precision<T>, Tiles>(problem, p);
}

// A call with everything that it needs, ready to be repeated.
template <class T, class Rule>
struct prepared_call {
    shape dims;
    Rule rule;
    tensors<T> data{dims};
    imbrex::plan plan{};
    std::vector<std::byte> workspace{};
    imbrex::executor_ref executor{};

    imbrex::status operator()() {
        return imbrex::attention(plan, data.q.input(), data.kv(), data.out.view(), rule,
                                 {.executor = executor, .workspace = workspace});
    }
};

// Eigen's two forms as contestants. They are loops over heads, so where all heads would take long only some take part in a turn,
// the next ones each time, and their time is scaled. The obvious form, which is no target, leaves after three turns.
template <class T, class Rule>
struct eigen_rivals {
    naive_attention<T> eigen;
    Rule rule;
    index next = 0;

    static constexpr double longest_turn_seconds = 0.08;

    contestant careful() {
        return turn_of([this](index head) { eigen.careful(rule, head); }, 1000);
    }
    contestant obvious() {
        return turn_of([this](index head) { eigen.obvious(rule, head); }, 3);
    }

    void careful_on_all_heads() {
        for (index head = 0; head < eigen.heads(); ++head) eigen.careful(rule, head);
    }

    template <class F>
    contestant turn_of(F one_head, index most_turns) {
        one_head(0);
        double const begin = seconds_on(CLOCK_THREAD_CPUTIME_ID);
        one_head(0);
        double const once = std::max(1e-9, seconds_on(CLOCK_THREAD_CPUTIME_ID) - begin);
        double const fit = std::clamp(longest_turn_seconds / once, 1.0, static_cast<double>(eigen.heads()));
        index const heads = static_cast<index>(fit);
        contestant c;
        c.call = [this, heads, one_head] {
            for (index i = 0; i < heads; ++i) one_head(next++ % eigen.heads());
        };
        c.scale = static_cast<double>(eigen.heads()) / static_cast<double>(heads);
        c.most_turns = most_turns;
        return c;
    }
};

// The machine's limit as the yardstick of a race, and what a slice of it moves or computes. The limit that the case is not raced
// against comes from a measurement of this process.
struct case_yardstick {
    limit kind;
    std::vector<memory_block> kv;
    read_figure read;
    double slice_bytes = 0;

    case_yardstick(limit which, pages page, std::vector<memory_block> blocks)
        : kind{which}, kv{std::move(blocks)}, read{which == limit::reads ? fastest_read(kv) : process_read(page)} {
        for (memory_block const& b : kv) slice_bytes += static_cast<double>(whole_bytes(b));
    }

    contestant slice() const {
        if (kind == limit::fma) return fma_yardstick();
        if (kind == limit::pairs) return pair_yardstick();
        return {.call = [this] { read_all(read.loop.run, kv); }};
    }

    void report(case_figures& f, contestant const& yardstick, contestant const& ours) const {
        std::vector<double> const share = ratios(yardstick.seconds, ours.seconds);
        f.percent_spread = 100 * spread(share);
        if (kind != limit::reads) {
            double const slice_flops = kind == limit::fma ? fma_slice_flops : pair_slice_flops;
            f.peak_gflops = 1e-9 * slice_flops / median(yardstick.seconds);
            f.percent_of_peak = 100 * median(share) * f.flops / slice_flops;
            f.read_gbps = read.gbps;
            f.percent_of_bandwidth = 100 * 1e-9 * f.bytes / f.seconds / read.gbps;
        } else {
            f.read_gbps = 1e-9 * slice_bytes / median(yardstick.seconds);
            f.percent_of_bandwidth = 100 * median(share) * f.bytes / slice_bytes;
            f.peak_gflops = process_peak_gflops();
            f.percent_of_peak = 100 * 1e-9 * f.flops / f.seconds / f.peak_gflops;
        }
    }
};

template <class T>
memory_block block_of(tensor<T> const& t) {
    return {reinterpret_cast<std::byte const*>(t.data()), t.bytes()};
}

template <class T, class Rule>
void measure(benchmark::State& state, prepared_call<T, Rule>& ours, case_settings const& settings, case_figures& f) {
    shape const& s = ours.dims;
    // Where bf16 is multiplied in pairs, the peak is that of its products.
    bool const in_pairs =
        ours.plan.wide == imbrex::wide_kind::bf16_pairs && ours.plan.unit(s.q_tokens) == imbrex::unit_kind::wide;
    limit const yardstick_kind = settings.yardstick == limit::fma && in_pairs ? limit::pairs : settings.yardstick;
    case_yardstick const limits{yardstick_kind, s.page, {block_of(ours.data.k), block_of(ours.data.v)}};
    contestant yardstick = limits.slice();
    contestant attention{.call = [&] { static_cast<void>(ours().ok()); }};
    std::optional<eigen_rivals<T, Rule>> eigen;
    contestant careful, obvious;
    std::vector<contestant*> others;
    if (settings.against == rivals::eigen) {
        eigen.emplace(eigen_rivals<T, Rule>{{s, ours.data.q.input(), ours.data.kv(), ours.data.out.view()}, ours.rule});
        careful = eigen->careful(), obvious = eigen->obvious();
        if (careful.scale == 1) {    // all heads in a turn: cheap enough to check
            eigen->careful_on_all_heads();
            if (!check_rows(ours.data, s, ours.rule).passed) return state.SkipWithError("Eigen's result is wrong");
        }
        others = {&careful, &obvious};
        f.careful_extra_bytes = static_cast<double>(eigen->eigen.extra_bytes());
    }
    race{.budget_seconds = settings.budget_seconds}.run(yardstick, attention, others);

    f.seconds = median(attention.seconds);
    f.rounds = static_cast<double>(attention.seconds.size());
    limits.report(f, yardstick, attention);
    f.careful_seconds = median(careful.seconds), f.obvious_seconds = median(obvious.seconds);
    f.time_over_careful = median(ratios(attention.seconds, careful.seconds));
    f.time_over_obvious = median(ratios(attention.seconds, obvious.seconds));
    std::string label{path_of(ours.plan).view()};
    if (settings.yardstick == limit::reads) label += std::string("; read by ") + limits.read.loop.name;
    state.SetLabel(label);
}

template <class T, class Rule, class Tiles>
void run_case(benchmark::State& state, shape const& s, Rule const& rule, case_settings const& settings) {
    prepared_call<T, Rule> ours{s, rule};
    case_figures f;
    auto const fail = [&](std::string const& why) {
        state.SetIterationTime(0);
        state.SkipWithError(why.c_str());
    };
    if (imbrex::status const made = plan_of<T, Tiles>(s, ours.plan); !made) return fail(std::string(made.message().view()));
    ours.workspace.resize(imbrex::workspace_bytes(ours.plan));
    if (imbrex::status const done = ours(); !done) return fail(std::string(done.message().view()));
    accuracy const checked = check_rows(ours.data, s, rule);
    if (!checked.passed)
        return fail("wrong result: off by " + std::to_string(checked.error) + " where " + std::to_string(checked.allowed) +
                    " is allowed");
    f.error = checked.error;
    f.flops = useful_flops(rule, s);
    f.bytes = static_cast<double>(settings.yardstick == limit::reads ? ours.data.kv_bytes() : ours.data.least_bytes());
    f.extra_bytes = static_cast<double>(ours.workspace.size());
    measure(state, ours, settings, f);
    report(state, f);
}

// op/precision/unit/rule/B1_H32_K8_Q4096_KV4096_D128/layout, and what distinguishes cases of one shape.
template <class T, class Rule, class Tiles = imbrex::tuned_tiles>
void add_case(std::string const& op, shape const& s, Rule const& rule, case_settings const& settings = {},
              std::string const& suffix = "") {
    imbrex::plan p;
    bool const planned = plan_of<T, Tiles>(s, p).ok();
    std::string const unit = planned && p.unit(s.q_tokens) == imbrex::unit_kind::narrow ? "narrow" : "wide";
    std::string const name = op + "/" + std::string(imbrex::dtype_name<T>()) + "/" + unit + "/" + std::string(rule_name(rule)) +
                             "/" + s.name() + suffix;
    add_benchmark(name, [=](benchmark::State& state) { run_case<T, Rule, Tiles>(state, s, rule, settings); });
}

}    // namespace imbrex_bench
