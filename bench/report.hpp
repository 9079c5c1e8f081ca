// From the seconds of a race to the counters of a report, and the main() that all benchmarks share.
//
//   gflops, percent_of_peak              useful ones: of visible pairs only
//   gbps, percent_of_bandwidth           of what must cross the bus at least once: q, k, v, out; in decode of k and v alone
//   peak_gflops, read_gbps               this core's, in this process
//   percent_spread                       half the distance between the quartiles of the percentage, in percent of it
//   extra_bytes, careful_extra_bytes     the workspace of the call; the scores that the careful Eigen form keeps
//   time_over_careful, time_over_obvious ours over Eigen's; careful_seconds and obvious_seconds are theirs
//   error                                the largest of the sampled rows against f64
// The time of a case is the median time of one call. Every ratio is the median of the ratios within a round.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include <benchmark/benchmark.h>

#include "machine.hpp"

namespace imbrex_bench {

struct case_figures {
    // NaN: not measured, and left out of the report.
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    double seconds = none;
    double flops = none, bytes = none;
    double peak_gflops = none, percent_of_peak = none;
    double read_gbps = none, percent_of_bandwidth = none;
    double percent_spread = none, rounds = none;
    double extra_bytes = none, careful_extra_bytes = none;
    double careful_seconds = none, time_over_careful = none;
    double obvious_seconds = none, time_over_obvious = none;
    double error = none;
};

inline void report(benchmark::State& state, case_figures const& f) {
    state.SetIterationTime(f.seconds);
    auto const set = [&](char const* name, double value) {
        if (!std::isnan(value)) state.counters[name] = value;
    };
    set("gflops", 1e-9 * f.flops / f.seconds);
    set("gbps", 1e-9 * f.bytes / f.seconds);
    set("flops", f.flops);
    set("bytes", f.bytes);
    set("peak_gflops", f.peak_gflops);
    set("percent_of_peak", f.percent_of_peak);
    set("read_gbps", f.read_gbps);
    set("percent_of_bandwidth", f.percent_of_bandwidth);
    set("percent_spread", f.percent_spread);
    set("extra_bytes", f.extra_bytes);
    set("careful_extra_bytes", f.careful_extra_bytes);
    set("careful_seconds", f.careful_seconds);
    set("time_over_careful", f.time_over_careful);
    set("obvious_seconds", f.obvious_seconds);
    set("time_over_obvious", f.time_over_obvious);
    set("error", f.error);
    set("rounds", f.rounds);
}

// Ends a case without figures.
inline void fail(benchmark::State& state, std::string const& why) {
    state.SetIterationTime(0);
    state.SkipWithError(why.c_str());
}
inline bool worked(benchmark::State& state, imbrex::status const& s) {
    if (!s) fail(state, std::string(s.message().view()));
    return s.ok();
}

// Registers one benchmark: body(state) measures everything in its only iteration, however long Google Benchmark would go on.
template <class Body>
void add_benchmark(std::string const& name, Body body) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [body](benchmark::State& state) {
                                     for (auto _ : state) body(state);
                                 })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
}

inline int run_benchmarks(int argc, char** argv, void (*add_all)()) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::AddCustomContext("imbrex_isa", IMBREX_ISA_NAME);
#if defined(__clang__)
    benchmark::AddCustomContext("compiler", "clang++ " __clang_version__);
#else
    benchmark::AddCustomContext("compiler", "g++ " __VERSION__);
#endif
    add_all();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}

}    // namespace imbrex_bench
