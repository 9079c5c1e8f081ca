// executor.hpp: the concept, the serial executor, and the reference that options hold.
#include "imbrex/executor.hpp"

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "executors/contract.hpp"

namespace {

using imbrex::executor;
using imbrex::executor_ref;
using imbrex::index;
using imbrex::serial_executor;
using imbrex::task_ref;

// Runs the tasks from the last to the first, and counts.
struct backward_executor {
    index workers = 5;
    int calls = 0;

    void run(index n, task_ref task) {
        ++calls;
        for (index i = n; i-- > 0;) task(i);
    }
    index max_workers() const { return workers; }
};

struct generic_executor {
    template <class Task>
    void run(index n, Task&& task) const {
        for (index i = 0; i < n; ++i) task(i);
    }
    static int max_workers() { return 3; }
};

TEST(Executor, ConceptWantsRunAndMaxWorkers) {
    struct no_workers {
        void run(index, task_ref);
    };
    struct no_run {
        index max_workers();
    };
    struct run_without_task {
        void run(index);
        index max_workers();
    };
    static_assert(executor<serial_executor> && executor<executor_ref> && executor<executor_ref const>);
    static_assert(executor<backward_executor> && !executor<backward_executor const>);
    static_assert(executor<generic_executor> && executor<generic_executor const>);
    static_assert(!executor<no_workers> && !executor<no_run> && !executor<run_without_task> && !executor<int>);
}

TEST(Executor, SerialRunsEachTaskOnceInOrderOnTheCallersThread) {
    std::vector<index> order;
    auto const caller = std::this_thread::get_id();
    auto const task = [&](index i) {
        order.push_back(i);
        EXPECT_EQ(std::this_thread::get_id(), caller);
    };
    serial_executor::run(4, task);
    EXPECT_EQ(order, (std::vector<index>{0, 1, 2, 3}));
    static_assert(serial_executor::max_workers() == 1);
    serial_executor serial;
    imbrex_test::expect_each_task_once(serial);
}

TEST(TaskRef, CallsTheCallableItWasMadeOfAndNoCopy) {
    struct counter {
        index sum = 0;
        void operator()(index i) { sum += i; }
        counter() = default;
        counter(counter const&) = delete;
    } count;
    task_ref const task{count};
    task(3);
    task_ref const again = task;
    again(4);
    EXPECT_EQ(count.sum, 7);
    static_assert(std::is_trivially_copyable_v<task_ref>);
}

TEST(TaskRef, TakesConstCallablesAndFunctionsThatTakeAnIndex) {
    index seen = 0;
    auto const lambda = [&seen](index i) { seen = i; };
    task_ref{lambda}(9);
    EXPECT_EQ(seen, 9);
    static_assert(!std::constructible_from<task_ref, int&> && !std::constructible_from<task_ref, void (&)()>);
}

TEST(ExecutorRef, DefaultIsSerial) {
    executor_ref const by_default;
    EXPECT_EQ(by_default.max_workers(), 1);
    EXPECT_EQ(imbrex_test::sum_of_shared_items(by_default, 1, 10), 45);
    imbrex_test::expect_each_task_once(by_default);
}

TEST(ExecutorRef, ForwardsToTheExecutorItRefersTo) {
    backward_executor backward;
    executor_ref const reference = backward;
    std::vector<index> order;
    auto const task = [&](index i) { order.push_back(i); };
    reference.run(3, task);
    EXPECT_EQ(order, (std::vector<index>{2, 1, 0}));
    EXPECT_EQ(backward.calls, 1);
    EXPECT_EQ(reference.max_workers(), 5);
    backward.workers = 2;
    EXPECT_EQ(reference.max_workers(), 2);    // asked, not remembered
    imbrex_test::expect_each_task_once(reference);
}

TEST(ExecutorRef, TakesConstAndGenericExecutorsAndOnesWithStaticMembers) {
    generic_executor const generic;
    serial_executor serial;
    EXPECT_EQ(executor_ref{generic}.max_workers(), 3);
    executor_ref const reference = generic;
    imbrex_test::expect_each_task_once(reference);
    EXPECT_EQ(executor_ref{serial}.max_workers(), 1);
}

TEST(ExecutorRef, CopiesReferToTheSameExecutorAndTemporariesAreRefused) {
    backward_executor backward;
    executor_ref const first = backward;
    executor_ref const second = first;
    auto const nothing = [](index) {};
    second.run(1, nothing);
    EXPECT_EQ(backward.calls, 1);
    static_assert(std::is_trivially_copyable_v<executor_ref>);
    static_assert(!std::convertible_to<backward_executor, executor_ref>);    // it would dangle
}

}    // namespace
