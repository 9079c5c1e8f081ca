// Runs a call's tasks on a thread pool of the caller's that takes callables. Opt-in.
#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <utility>

#include "imbrex/executor.hpp"

namespace imbrex {

// One run() of a submit_executor. Callables that the pool starts late still look at it when run() has long returned, so it is
// shared, and once every task is taken it never touches the caller's frame again.
class submitted_run {
public:
    submitted_run(index n, task_ref task) noexcept : n_{static_cast<std::uint32_t>(n)}, task_{task} {}

    // Takes the next task and runs it; false when all are taken.
    bool run_next() noexcept {
        std::uint32_t const i = taken_.fetch_add(1, std::memory_order_relaxed);
        if (i >= n_) return false;
        task_(static_cast<index>(i));
        if (finished_.fetch_add(1) + 1 == n_) finished_.notify_one();
        return true;
    }
    void wait_for_all() const noexcept {
        for (std::uint32_t seen; (seen = finished_.load()) != n_;) finished_.wait(seen);
    }

private:
    std::uint32_t const n_;
    task_ref const task_;
    std::atomic<std::uint32_t> taken_{0};
    std::atomic<std::uint32_t> finished_{0};
};

// What a pool is given: a small copyable callable. It may be run on any thread, at any time, late, or never.
class pool_job {
public:
    explicit pool_job(std::shared_ptr<submitted_run> run) noexcept : run_{std::move(run)} {}
    void operator()() const noexcept { run_->run_next(); }

private:
    std::shared_ptr<submitted_run> run_;
};

//     submit_executor executor{[&](auto job) { pool.enqueue(job); }, 8};    // up to 8 threads, the caller's own among them
//     attention(q, kv, out, rule, {.executor = executor, .workspace = ...});
// Each thread takes the next task that nobody has, the caller's too, until none is left; then the caller waits for tasks that
// are running, never for jobs that are queued. So run() may be called from the pool's own threads, all of them at once, and
// nested; a busy pool, or one that drops a job, leaves more tasks to the caller. submit and tasks must not throw.
// run() makes one small allocation, beside those of submit itself.
template <class Submit>
class submit_executor {
    static_assert(std::invocable<Submit&, pool_job>,
                  "imbrex: submit must take a copyable callable without arguments; wrap your pool's function, "
                  "e.g. submit_executor{[&](auto job) { pool.enqueue(job); }, 8}");

public:
    submit_executor(Submit submit, index workers) : submit_{std::move(submit)}, workers_{workers} {}

    index max_workers() const noexcept { return workers_; }

    void run(index n, task_ref task) noexcept {
        if (n <= 1) return serial_executor::run(n, task);
        auto const shared = std::make_shared<submitted_run>(n, task);
        for (index i = 1; i < n; ++i) submit_(pool_job{shared});
        while (shared->run_next()) {
        }
        shared->wait_for_all();
    }

private:
    Submit submit_;
    index workers_;
};

}    // namespace imbrex
