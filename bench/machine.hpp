// The limits of this core as figures: multiply-adds a second, and bytes read a second by the best of the read loops.
#pragma once

#include <string>
#include <vector>

#include "alternate.hpp"
#include "peak.hpp"
#include "problem.hpp"

namespace imbrex_bench {

inline constexpr index fma_slice_rounds = 50'000;
inline constexpr double fma_slice_flops = flops_of_fma_round * static_cast<double>(fma_slice_rounds);

inline constexpr double pair_slice_flops = flops_of_pair_round * static_cast<double>(fma_slice_rounds);

inline contestant pair_yardstick() {
    return {.call = [] { run_pair_products(fma_slice_rounds); }};
}

inline contestant fma_yardstick() {
    return {.call = [] { run_fmas(fma_slice_rounds); }};
}

// What a decode step must read: the bytes of K, the bytes of V. Rounded down to what a read loop can take.
struct memory_block {
    std::byte const* data;
    index bytes;
};

inline index whole_bytes(memory_block const& b) { return b.bytes / 4096 * 4096; }

inline index read_all(read_loop run, std::vector<memory_block> const& blocks) {
    index bytes = 0;
    for (memory_block const& b : blocks) {
        run(b.data, whole_bytes(b));
        bytes += whole_bytes(b);
    }
    return bytes;
}

struct read_figure {
    named_read_loop loop;
    double gbps;
};

// Each loop takes its turn on these very blocks; the one of the best median wins.
inline read_figure fastest_read(std::vector<memory_block> const& blocks, index passes = 5) {
    read_figure best{read_loops[0], 0};
    std::vector<std::vector<double>> seconds(std::size(read_loops));
    double bytes = 0;
    for (index i = 0; i < passes; ++i) {
        for (std::size_t n = 0; n < std::size(read_loops); ++n) {
            double const begin = seconds_on(CLOCK_THREAD_CPUTIME_ID);
            bytes = static_cast<double>(read_all(read_loops[n].run, blocks));
            seconds[n].push_back(seconds_on(CLOCK_THREAD_CPUTIME_ID) - begin);
        }
    }
    for (std::size_t n = 0; n < std::size(read_loops); ++n) {
        double const gbps = 1e-9 * bytes / median(seconds[n]);
        if (gbps > best.gbps) best = {read_loops[n], gbps};
    }
    return best;
}

// Measured once a process, for the counters that are no yardstick of the case at hand.
inline double process_peak_gflops() {
    static double const figure = [] {
        contestant fma = fma_yardstick();
        fma.calibrate(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < 9; ++i) fma.take_turn(CLOCK_THREAD_CPUTIME_ID);
        return 1e-9 * fma_slice_flops / median(fma.seconds);
    }();
    return figure;
}

inline read_figure const& process_read(pages kind) {
    constexpr index bytes = index{256} << 20;    // well beyond any L3
    auto const measure = [](pages k) {
        page_memory memory{bytes, k};
        normal_numbers{5}.fill(reinterpret_cast<float*>(memory.data()),
                               bytes / 4);    // untouched pages would all be the one of zeros
        return fastest_read({{memory.data(), bytes}});
    };
    if (kind == pages::huge) {
        static read_figure const huge = measure(pages::huge);
        return huge;
    }
    static read_figure const small = measure(pages::small);
    return small;
}

}    // namespace imbrex_bench
