// More threads: how much faster two are than one, beside how the FMA peak itself scales in the same rounds. A shared machine
// seldom gives two whole cores, so the second figure, not 2, is what the first is held to. Wall clock; both hand out their work
// in pieces.
#include <algorithm>
#include <atomic>

#include <imbrex/executors/thread_team.hpp>

#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

// The peak's work in pieces of about 0.2 ms, taken by whoever is free.
constexpr index pieces = 100;

void run_pieces(imbrex::thread_team& team) {
    std::atomic<index> next{0};
    auto task = [&](index) {
        while (next.fetch_add(1, std::memory_order_relaxed) < pieces) run_fmas(fma_slice_rounds);
    };
    team.run(team.max_workers(), task);
}

template <class Rule>
void measure_threads(benchmark::State& state, shape const& s, Rule const& rule, index threads) {
    imbrex::thread_team one{1}, many{threads};
    prepared_call<float, Rule> ours{s, rule};
    auto const fail = [&](std::string const& why) {
        state.SetIterationTime(0);
        state.SkipWithError(why.c_str());
    };
    if (imbrex::status const made = plan_of<float>(s, ours.plan); !made) return fail(std::string(made.message().view()));
    ours.workspace.resize(imbrex::workspace_bytes(ours.plan, threads));
    ours.executor = many;
    if (imbrex::status const done = ours(); !done) return fail(std::string(done.message().view()));
    accuracy const checked = check_rows(ours.data, s, rule);
    if (!checked.passed) return fail("wrong result on " + std::to_string(threads) + " threads");

    contestant ours_one{.call = [&] { ours.executor = one, static_cast<void>(ours().ok()); }, .least_seconds = 20e-3};
    contestant ours_many{.call = [&] { ours.executor = many, static_cast<void>(ours().ok()); }, .least_seconds = 20e-3};
    contestant peak_one{.call = [&] { run_pieces(one); }, .least_seconds = 20e-3};
    contestant peak_many{.call = [&] { run_pieces(many); }, .least_seconds = 20e-3};
    race{.clock = CLOCK_MONOTONIC, .budget_seconds = 4}.run({&peak_one, &ours_one, &ours_many, &peak_many});

    std::vector<double> const ours_scales = ratios(ours_one.seconds, ours_many.seconds),
                              peak_scales = ratios(peak_one.seconds, peak_many.seconds);
    case_figures f;
    f.seconds = median(ours_many.seconds);
    f.flops = useful_flops(rule, s);
    f.bytes = static_cast<double>(ours.data.least_bytes());
    f.peak_gflops = 1e-9 * fma_slice_flops * static_cast<double>(pieces) / median(peak_many.seconds);
    f.percent_of_peak =
        100 * f.flops / (fma_slice_flops * static_cast<double>(pieces)) * median(ratios(peak_many.seconds, ours_many.seconds));
    f.read_gbps = process_read(s.page).gbps;
    f.percent_spread = 100 * spread(ratios(ours_scales, peak_scales));
    f.extra_bytes = static_cast<double>(ours.workspace.size());
    f.error = checked.error;
    f.rounds = static_cast<double>(ours_many.seconds.size());
    report(state, f);
    state.counters["workers"] = static_cast<double>(threads);
    state.counters["speedup"] = median(ours_scales);
    state.counters["peak_speedup"] = median(peak_scales);
    state.counters["speedup_over_peak_speedup"] = median(ratios(ours_scales, peak_scales));
    state.SetLabel(std::string(path_of(ours.plan).view()));
}

template <class Rule>
void add_threads(shape const& s, Rule const& rule) {
    index const cores = std::max<index>(2, static_cast<index>(std::thread::hardware_concurrency()));
    for (index threads = 2; threads <= cores; threads *= 2) {
        std::string const name = "threads/f32/" + std::string(s.q_tokens == 1 ? "narrow/" : "wide/") +
                                 std::string(rule_name(rule)) + "/" + s.name() + "/threads:" + std::to_string(threads);
        add_benchmark(name, [=](benchmark::State& state) { measure_threads(state, s, rule, threads); });
    }
}

void add_all() {
    for (index const head_dim : {64, 128}) {
        add_threads(self_attention(8, 2048, head_dim), causal_rule);
        add_threads(self_attention(8, 2048, head_dim), imbrex::full{});
    }
    add_threads(self_attention(1, 2048, 128), causal_rule);                  // one head alone
    add_threads(self_attention(8, 2048, 128, layout::bshd), causal_rule);    // with the prepare phase
    add_threads({.q_heads = 4, .kv_heads = 1, .q_tokens = 1, .kv_tokens = 131072, .head_dim = 128},
                imbrex::full{});    // split-KV
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
