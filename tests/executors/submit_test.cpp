// executors/submit.hpp over pools of several tempers: quick, saturated, forgetful, late, and one that runs a job inside submit.
#include "imbrex/executors/submit.hpp"

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "executors/contract.hpp"
#include "executors/pool.hpp"

namespace {

using imbrex::index;
using imbrex::pool_job;
using imbrex::submit_executor;
using imbrex_test::executor_on;
using imbrex_test::pool;

class SubmitTo : public testing::TestWithParam<int> {};

TEST_P(SubmitTo, RunsEachTaskOnceForEveryNumberOfTasks) {
    pool p{GetParam()};
    auto executor = executor_on(p, 8);
    EXPECT_EQ(executor.max_workers(), 8);
    imbrex_test::expect_each_task_once(executor);
}

TEST_P(SubmitTo, SharesItemsOut) {
    pool p{GetParam()};
    auto executor = executor_on(p, 5);
    for (int round = 0; round < 200; ++round) ASSERT_EQ(imbrex_test::sum_of_shared_items(executor, 5, 1000), 499500);
}

TEST_P(SubmitTo, RunsFromEveryThreadOfThePoolAtOnceWithoutDeadlock) {
    constexpr int calls = 60;
    std::atomic<int> done{0};
    {
        pool p{GetParam()};
        auto executor = executor_on(p, 4);
        for (int call = 0; call < calls; ++call) {
            p.submit([&] {
                imbrex_test::expect_each_task_once(executor, 4);
                ++done;
            });
        }
        while (done < calls) std::this_thread::yield();
    }
    EXPECT_EQ(done, calls);
}

TEST_P(SubmitTo, NestedRunsFinish) {
    pool p{GetParam()};
    auto executor = executor_on(p, 3);
    std::atomic<int> leaves{0};
    auto const leaf = [&](index) { ++leaves; };
    auto const middle = [&](index) { executor.run(3, leaf); };
    auto const root = [&](index) { executor.run(3, middle); };
    for (int round = 0; round < 10; ++round) executor.run(3, root);
    EXPECT_EQ(leaves, 10 * 27);
}

TEST_P(SubmitTo, RunsFromSeveralThreadsAtOnceDoNotMix) {
    pool p{GetParam()};
    auto executor = executor_on(p, 4);
    imbrex_test::on_threads(4, [&](int) {
        for (int round = 0; round < 100; ++round) imbrex_test::expect_each_task_once(executor, 4);
    });
}

TEST_P(SubmitTo, ExecutorMayBeAPassingObjectOfTheCallers) {
    pool p{GetParam()};
    for (int round = 0; round < 200; ++round) {
        auto executor = executor_on(p, 6);    // its jobs may still be queued when it goes
        imbrex_test::expect_each_task_once(executor, 6);
    }
}

INSTANTIATE_TEST_SUITE_P(PoolOf, SubmitTo, testing::Values(1, 2, 3, 8));

TEST(SubmitExecutor, PoolsThatNeverRunAJobLeaveEverythingToTheCaller) {
    submit_executor executor{[](auto) {}, 4};
    auto const caller = std::this_thread::get_id();
    auto const task = [&](index) { EXPECT_EQ(std::this_thread::get_id(), caller); };
    executor.run(4, task);
    imbrex_test::expect_each_task_once(executor);
}

TEST(SubmitExecutor, JobsThatStartAfterRunHasReturnedDoNothing) {
    std::vector<std::function<void()>> late;
    submit_executor executor{[&](auto job) { late.emplace_back(job); }, 4};
    imbrex_test::expect_each_task_once(executor, 4);
    EXPECT_EQ(late.size(), 3u);
    for (auto const& job : late) {
        job();
        job();    // not even a second time
    }
}

TEST(SubmitExecutor, PoolsThatRunAJobInsideSubmitAreFine) {
    submit_executor executor{[](auto job) { job(); }, 4};
    imbrex_test::expect_each_task_once(executor);
}

TEST(SubmitExecutor, OneTaskAsksThePoolForNothing) {
    int submitted = 0;
    submit_executor executor{[&](pool_job const&) { ++submitted; }, 4};
    imbrex_test::expect_each_task_once(executor, 0);
    imbrex_test::expect_each_task_once(executor, 1);
    EXPECT_EQ(submitted, 0);
    imbrex_test::expect_each_task_once(executor, 3);
    EXPECT_EQ(submitted, 2);
}

TEST(SubmitExecutor, PoolsThreadsTakePart) {
    pool p{2};
    auto executor = executor_on(p, 3);
    std::atomic<int> arrived{0};
    auto const meet = [&](index) {
        ++arrived;
        while (arrived < 3) std::this_thread::yield();
    };
    executor.run(3, meet);
    EXPECT_EQ(arrived, 3);
}

TEST(SubmitExecutor, IsAnExecutorForOptions) {
    auto nowhere = submit_executor{[](pool_job const&) {}, 2};
    imbrex::executor_ref const reference = nowhere;
    EXPECT_EQ(reference.max_workers(), 2);
    imbrex_test::expect_each_task_once(reference);
}

}    // namespace
