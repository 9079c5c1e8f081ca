// executors/thread_team.hpp: the concept's promises, sleeping and waking, turns, nesting, and no heap in run().
#include "imbrex/executors/thread_team.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "executors/contract.hpp"

// clang's sanitizers link an operator new of their own, which cannot be replaced.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IMBREX_TEST_OWN_NEW 0
#endif
#endif
#ifndef IMBREX_TEST_OWN_NEW
#define IMBREX_TEST_OWN_NEW 1
#endif

namespace {

std::atomic<long> allocations{0};

}    // namespace

#if IMBREX_TEST_OWN_NEW
// Out of line, for g++ sees one half of a pair inlined and warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++allocations;
    if (void* const p = std::malloc(bytes)) return p;
    std::abort();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace {

using imbrex::index;
using imbrex::thread_team;

class Team : public testing::TestWithParam<int> {};

TEST_P(Team, RunsEachTaskOnceForEveryNumberOfTasks) {
    thread_team team{GetParam()};
    EXPECT_EQ(team.max_workers(), GetParam());
    imbrex_test::expect_each_task_once(team);
}

TEST_P(Team, SharesItemsOut) {
    thread_team team{GetParam()};
    for (int round = 0; round < 200; ++round) {
        ASSERT_EQ(imbrex_test::sum_of_shared_items(team, team.max_workers(), 1000), 499500);
    }
}

TEST_P(Team, IsDestroyedAtOnceAfterARunAndWithoutAnyRun) {
    for (int round = 0; round < 50; ++round) {
        thread_team idle{GetParam()};
        thread_team used{GetParam()};
        imbrex_test::expect_each_task_once(used, used.max_workers());
    }
}

TEST_P(Team, SerialisesRunsFromSeveralThreads) {
    thread_team team{GetParam()};
    std::atomic<int> at_work{0};
    imbrex_test::on_threads(4, [&](int) {
        for (int round = 0; round < 100; ++round) {
            auto const task = [&](index) {
                ++at_work;
                EXPECT_LE(at_work.load(), team.max_workers());
                --at_work;
            };
            if (team.max_workers() > 1) team.run(team.max_workers(), task);
            imbrex_test::expect_each_task_once(team, team.max_workers());
        }
    });
}

TEST_P(Team, RunsNestedTasksOnTheThreadOfTheTaskThatAsks) {
    thread_team team{GetParam()};
    std::atomic<int> nested{0};
    auto const outer = [&](index) {
        auto const self = std::this_thread::get_id();
        auto const inner = [&](index) {
            EXPECT_EQ(std::this_thread::get_id(), self);
            ++nested;
        };
        team.run(team.max_workers(), inner);
    };
    for (int round = 0; round < 20; ++round) team.run(team.max_workers(), outer);
    EXPECT_EQ(nested, 20 * GetParam() * GetParam());
    imbrex_test::expect_each_task_once(team);    // and the team is whole again
}

INSTANTIATE_TEST_SUITE_P(Threads, Team, testing::Values(1, 2, 3, 7, 16));

TEST(ThreadTeam, UsesTheCallingThreadForTaskZeroAndOneOtherThreadForEachOther) {
    thread_team team{4};
    std::vector<std::thread::id> first(4), second(4);
    auto const note = [](std::vector<std::thread::id>& ids) {
        return [&ids](index i) { ids[static_cast<std::size_t>(i)] = std::this_thread::get_id(); };
    };
    auto const note_first = note(first), note_second = note(second);
    team.run(4, note_first);
    team.run(4, note_second);
    EXPECT_EQ(first[0], std::this_thread::get_id());
    EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 4u);
    EXPECT_EQ(first, second);    // task i always on the same thread, so that its scratch stays in that core's cache
}

TEST(ThreadTeam, TasksRunAtTheSameTime) {
    thread_team team{3};
    std::atomic<int> arrived{0};
    auto const meet = [&](index) {
        ++arrived;
        while (arrived < 3) std::this_thread::yield();
    };
    team.run(3, meet);
    EXPECT_EQ(arrived, 3);
}

TEST(ThreadTeam, WakesFromSleep) {
    thread_team team{3};
    for (int round = 0; round < 5; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
        imbrex_test::expect_each_task_once(team, 3);
        auto const slow = [](index i) { std::this_thread::sleep_for(std::chrono::milliseconds{i == 2 ? 30 : 0}); };
        team.run(3, slow);    // the caller sleeps until the last has finished
    }
}

TEST(ThreadTeam, OfNoneOrLessIsTheCallingThreadAlone) {
    for (int const threads : {0, -3}) {
        thread_team team{threads};
        EXPECT_EQ(team.max_workers(), 1);
        imbrex_test::expect_each_task_once(team);
    }
}

TEST(ThreadTeam, TakesAsManyThreadsAsTheMachineHasByDefault) {
    thread_team team;
    EXPECT_EQ(team.max_workers(), std::max(1u, std::thread::hardware_concurrency()));
    imbrex_test::expect_each_task_once(team, team.max_workers());
}

TEST(ThreadTeam, RunNeverAllocates) {
    if (!IMBREX_TEST_OWN_NEW) GTEST_SKIP() << "a sanitizer's operator new is in the way of counting";
    thread_team team{4};
    std::atomic<index> sum{0};
    auto const task = [&](index i) { sum += i; };
    long const before = allocations;
    for (int round = 0; round < 100; ++round) team.run(4, task);
    EXPECT_EQ(allocations, before);
    EXPECT_EQ(sum, 600);
}

TEST(ThreadTeam, TwoTeamsNestInEachOther) {
    thread_team outer{3}, inner{2};
    std::atomic<int> runs{0};
    auto const leaf = [&](index) { ++runs; };
    auto const task = [&](index) { inner.run(2, leaf); };
    for (int round = 0; round < 50; ++round) outer.run(3, task);
    EXPECT_EQ(runs, 50 * 3 * 2);
}

}    // namespace
