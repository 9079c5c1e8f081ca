// Runs a call's tasks on the caller's OpenMP threads. Opt-in, and the only header that wants a compiler flag.
#pragma once

#ifndef _OPENMP
#error "imbrex: openmp_executor runs on OpenMP's threads; compile this file with -fopenmp, or use executors/thread_team.hpp"
#else

#include <omp.h>

#include "imbrex/executor.hpp"

namespace imbrex {

//     openmp_executor omp;
//     attention(q, kv, out, rule, {.executor = omp, .workspace = ...});
// Where OpenMP grants fewer threads (inside another parallel region, say), each of them runs several tasks.
struct openmp_executor {
    int threads = omp_get_max_threads();    // asked once, so that the size of a workspace does not change between calls

    void run(index n, task_ref task) const noexcept {
        if (n <= 1) return serial_executor::run(n, task);
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(n))
        for (index i = 0; i < n; ++i) task(i);
    }
    index max_workers() const noexcept { return threads; }
};

}    // namespace imbrex

#endif
