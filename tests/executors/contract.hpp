// What every executor promises, held against one of them.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "imbrex/executor.hpp"

namespace imbrex_test {

using imbrex::index;

// Each task is run once, and what it wrote is there after run(): the cells are plain, for a race would be one.
template <imbrex::executor E>
void expect_each_task_once(E& executor, index n) {
    struct alignas(64) cell {
        int runs = 0;
        index value = -1;
    };
    std::vector<cell> cells(static_cast<std::size_t>(n));
    index const before = 41;
    auto const task = [&](index i) {
        cell& own = cells.at(static_cast<std::size_t>(i));
        ++own.runs;
        own.value = before + i;
    };
    executor.run(n, task);
    for (index i = 0; i < n; ++i) {
        ASSERT_EQ(cells[static_cast<std::size_t>(i)].runs, 1) << "task " << i << " of " << n;
        ASSERT_EQ(cells[static_cast<std::size_t>(i)].value, before + i) << "task " << i << " of " << n;
    }
}

// For every number of tasks that may be asked for, none included, again and again.
template <imbrex::executor E>
void expect_each_task_once(E& executor) {
    for (int round = 0; round < 50; ++round) {
        for (index n = 0; n <= executor.max_workers(); ++n) expect_each_task_once(executor, n);
    }
}

// The way imbrex shares work out: tasks take items from a counter, and any one task can finish them all.
template <imbrex::executor E>
index sum_of_shared_items(E& executor, index tasks, index items) {
    std::atomic<index> next{0}, sum{0};
    auto const task = [&](index) {
        for (index i; (i = next.fetch_add(1)) < items;) sum += i;
    };
    executor.run(tasks, task);
    return sum;
}

// Runs f on that many threads at once.
template <class F>
void on_threads(int count, F f) {
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) threads.emplace_back([=] { f(t); });
    for (std::thread& t : threads) t.join();
}

}    // namespace imbrex_test
