// executors/openmp.hpp, compiled with -fopenmp.
#include "imbrex/executors/openmp.hpp"

#include <atomic>

#include <gtest/gtest.h>

#include "executors/contract.hpp"

namespace {

using imbrex::index;
using imbrex::openmp_executor;

TEST(OpenmpExecutor, TakesOpenmpsNumberOfThreadsUnlessToldOne) {
    EXPECT_EQ(openmp_executor{}.max_workers(), omp_get_max_threads());
    EXPECT_EQ(openmp_executor{3}.max_workers(), 3);
}

TEST(OpenmpExecutor, RunsEachTaskOnceForEveryNumberOfTasks) {
    for (int const threads : {1, 2, 3, 7}) {
        openmp_executor executor{threads};
        imbrex_test::expect_each_task_once(executor);
        EXPECT_EQ(imbrex_test::sum_of_shared_items(executor, threads, 1000), 499500);
    }
}

TEST(OpenmpExecutor, RunsEachTaskOnceInsideAParallelRegionWhereThreadsAreFewer) {
    std::atomic<int> regions{0};
#pragma omp parallel num_threads(2)
    {
        openmp_executor executor{4};
        imbrex_test::expect_each_task_once(executor, 4);
        ++regions;
    }
    EXPECT_GE(regions, 1);
}

TEST(OpenmpExecutor, IsAnExecutorForOptionsAlsoWhenConst) {
    openmp_executor const executor{2};
    imbrex::executor_ref const reference = executor;
    EXPECT_EQ(reference.max_workers(), 2);
    imbrex_test::expect_each_task_once(reference);
}

}    // namespace
