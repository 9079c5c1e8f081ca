// The same bits from any number of threads, in any order of tasks, with any batch mates; and on whose threads they are computed.
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::precision;
using f32 = precision<float>;

// A thread for each task.
struct fresh_threads {
    index workers;
    index max_workers() const { return workers; }
    void run(index n, imbrex::task_ref task) const {
        std::vector<std::jthread> threads;
        for (index i = 0; i < n; ++i) threads.emplace_back([=] { task(i); });
    }
};

// The caller's thread alone, the last task first. Counts what it is asked to do.
struct backwards {
    index workers;
    index runs = 0;
    bool asked_too_much = false;
    index max_workers() const { return workers; }
    void run(index n, imbrex::task_ref task) {
        ++runs;
        asked_too_much = asked_too_much || n < 0 || n > workers;
        for (index i = n - 1; i >= 0; --i) task(i);
    }
};

attention_case const cases[] = {
    {.batch = 2, .q_tokens = 300, .kv_tokens = 310, .q_heads = 4, .kv_heads = 2, .head_dim = 32, .sees = rule::bottom_right},    // many items
    {.batch = 1, .q_tokens = 270, .kv_tokens = 130, .q_heads = 8, .kv_heads = 8, .head_dim = 64, .sees = rule::top_left, .memory = order::bshd},    // copies
    {.batch = 3, .q_tokens = 1, .kv_tokens = 300, .q_heads = 8, .kv_heads = 2, .head_dim = 64, .sees = rule::bottom_right, .memory = order::bshd},
    {.batch = 1, .q_tokens = 5, .kv_tokens = 9, .q_heads = 1, .kv_heads = 1, .head_dim = 8, .sees = rule::full},    // fewer items than threads
};

template <class P>
class AttentionDeterminism : public Seeded {
protected:
    // f(tensors of a serial call; again(executor) repeats it and compares)
    template <class F>
    void for_each_case(F const& f) {
        for (attention_case const& c : cases) {
            SCOPED_TRACE(testing::Message() << c);
            call_tensors<P> const t{c};
            fill(t);
            ASSERT_OK(planned(t, c.sees));
            expect_accurate(t, visibility_of(c));
            tensor<typename P::output> const first{c.out(), c.memory};
            guarded<float> const first_lse{t.lse.size()};
            std::ranges::copy(t.out.memory, first.memory.data());
            std::ranges::copy(t.lse, first_lse.data());
            f([&](auto& executor) {
                t.out.memory.poison();
                t.lse.poison();
                ASSERT_OK(planned(t, c.sees, {.executor = executor}));
                EXPECT_TRUE(same_bits(first.memory, t.out.memory));
                EXPECT_TRUE(same_bits(first_lse, t.lse));
            });
        }
    }
};

using precisions = testing::Types<f32, precision<float, bf16, bf16, bf16>>;
struct names {
    template <class P>
    static std::string GetName(int) {
        return std::is_same_v<P, f32> ? "f32" : "f32_on_bf16";
    }
};
TYPED_TEST_SUITE(AttentionDeterminism, precisions, names);

TYPED_TEST(AttentionDeterminism, OneTwoThreeAndSevenThreadsGiveTheSameBits) {
    this->for_each_case([](auto const& again) {
        for (index const workers : {1, 2, 3, 7}) {
            SCOPED_TRACE(testing::Message() << workers << " threads");
            for (int repetition = 0; repetition < 3; ++repetition) {
                fresh_threads executor{workers};
                again(executor);
            }
        }
    });
}

TYPED_TEST(AttentionDeterminism, TheOrderOfTasksDoesNotMatterAndNoMoreAreAskedThanThereAreWorkers) {
    this->for_each_case([](auto const& again) {
        for (index const workers : {1, 2, 7, 100}) {
            backwards executor{workers};
            again(executor);
            EXPECT_GT(executor.runs, 0);
            EXPECT_FALSE(executor.asked_too_much);
        }
    });
}

TYPED_TEST(AttentionDeterminism, ASequenceGivesTheSameBitsAloneAndInABatchWhateverItsMatesHold) {
    for (attention_case c : cases) {
        c.batch = 3;
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<TypeParam> const all{c};
        this->fill(all);
        attention_case one = c;
        one.batch = 1;
        call_tensors<TypeParam> const alone{one};
        auto const second = [](auto const& batch, auto const& single) { std::copy_n(batch.memory.data() + single.memory.size(), single.memory.size(), single.memory.data()); };
        second(all.q, alone.q);
        second(all.k, alone.k);
        second(all.v, alone.v);
        for (index const mate : {0, 2}) {
            for (index i = 0; i < c.q_tokens; ++i) std::memset(static_cast<void*>(all.q.view.row(mate, i, 0)), 0xff, sizeof(*all.q.view.data));
            for (index j = 0; j < c.kv_tokens; ++j) std::memset(static_cast<void*>(all.v.view.row(mate, j, 0)), 0xff, sizeof(*all.v.view.data));
        }
        ASSERT_OK(planned(all, c.sees));
        ASSERT_OK(planned(alone, c.sees));
        std::size_t const n = alone.out.memory.size(), rows = alone.lse.size();
        EXPECT_EQ(std::memcmp(all.out.memory.data() + n, alone.out.memory.data(), n * sizeof(*alone.out.memory.data())), 0);
        EXPECT_EQ(std::memcmp(all.lse.data() + rows, alone.lse.data(), rows * sizeof(float)), 0);
    }
}

class AttentionThreads : public Seeded {};

// The threads of this process, where the system tells; else 0.
std::size_t threads_now() {
    std::error_code none;
    std::size_t count = 0;
    for (auto const& thread : std::filesystem::directory_iterator{"/proc/self/task", none}) {
        (void)thread;
        ++count;
    }
    return count;
}

// Runs on the caller's thread, counting threads while the library's work is under way.
struct watchful {
    std::set<std::size_t> threads;
    static index max_workers() { return 3; }
    void run(index n, imbrex::task_ref task) {
        for (index i = 0; i < n; ++i) {
            task(i);
            threads.insert(threads_now());
        }
    }
};

TEST_F(AttentionThreads, ACallCreatesNone) {
    std::size_t const before = threads_now();
    if (before == 0) GTEST_SKIP() << "this system does not list a process's threads in /proc/self/task";
    for (attention_case const& c : cases) {
        call_tensors<f32> const t{c};
        fill(t);
        watchful executor;
        ASSERT_OK(planned(t, c.sees, {.executor = executor}));
        EXPECT_EQ(executor.threads, std::set<std::size_t>{before});
        ASSERT_OK(planned(t, c.sees));
        EXPECT_EQ(threads_now(), before);
    }
}

TEST_F(AttentionThreads, SeveralCallsMayRunOnOnePlanAtOnce) {
    attention_case const& c = cases[0];
    call_tensors<f32> const t{c};
    fill(t);
    ASSERT_OK(planned(t, c.sees));
    imbrex::plan p;
    ASSERT_OK(imbrex::plan_for(t.q.view, t.kv(), t.out.view, p));
    constexpr int callers = 4;
    std::vector<tensor<float>> outs;
    for (int i = 0; i < callers; ++i) outs.emplace_back(c.out(), c.memory);
    std::atomic<int> failed{0};
    {
        std::vector<std::jthread> threads;
        for (auto const& out : outs) {
            threads.emplace_back([&] {
                for (int repetition = 0; repetition < 5; ++repetition) {
                    guarded<std::byte> workspace{imbrex::workspace_bytes(p)};
                    failed += !imbrex::attention(p, t.q.view, t.kv(), out.view, imbrex::causal{imbrex::align::bottom_right}, {.workspace = workspace}).ok();
                }
            });
        }
    }
    EXPECT_EQ(failed, 0);
    for (auto const& out : outs) EXPECT_TRUE(same_bits(out.memory, t.out.memory));
}

}    // namespace
}    // namespace imbrex_test
