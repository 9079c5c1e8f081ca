// A small pool that the caller makes, and the library never does behind its back. Opt-in; link with the platform's threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "imbrex/executor.hpp"

namespace imbrex {

//     thread_team team(8);
//     attention(q, kv, out, rule, {.executor = team, .workspace = ...});
// Seven threads that sleep between runs, and the thread that calls run(). run() never allocates; tasks must not throw.
//
// One run at a time has the team. A run() from another thread meanwhile waits for its turn; one from inside a task of the same
// team has all its tasks run by that task's thread. So neither deadlocks, unless a task waits for another thread's run().
class thread_team {
public:
    // Throws std::system_error where a thread cannot be made.
    explicit thread_team(index threads = static_cast<index>(std::thread::hardware_concurrency()))
        : thread_team{std::in_place, static_cast<std::size_t>(std::max<index>(1, threads) - 1)} {
        // By now the object counts as made, so if a thread cannot be, the destructor ends those before it.
        for (std::size_t i = 0; i < members_.size(); ++i) {
            members_[i].thread = std::thread{[this, i] { serve(members_[i], static_cast<index>(i) + 1); }};
        }
    }
    // No run may be under way.
    ~thread_team() {
        task_ = nullptr;
        for (member& m : members_) m.call();
        for (member& m : members_) {
            if (m.thread.joinable()) m.thread.join();
        }
    }
    thread_team(thread_team const&) = delete;
    thread_team& operator=(thread_team const&) = delete;

    index max_workers() const noexcept { return static_cast<index>(members_.size()) + 1; }

    void run(index n, task_ref task) noexcept {
        IMBREX_ASSERT(n <= max_workers());
        if (n <= 1 || inside()) return serial_executor::run(n, task);
        std::scoped_lock const turn{turn_};
        owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
        task_ = &task;
        unfinished_.store(static_cast<std::uint32_t>(n) - 1, std::memory_order_relaxed);
        for (index i = 1; i < n; ++i) members_[static_cast<std::size_t>(i) - 1].call();
        task(0);
        for (std::uint32_t left; (left = unfinished_.load()) != 0;) unfinished_.wait(left);
        owner_.store(std::thread::id{}, std::memory_order_relaxed);
    }

private:
    // Decision: each thread sleeps on a word of its own, so that a run of n tasks wakes n - 1 threads and a thread that wakes
    // late meets no other run's task. With one word for all, every thread would have to report back from every run.
    struct alignas(64) member {
        std::atomic<std::uint32_t> calls{0};
        std::thread thread;

        void call() noexcept {
            calls.fetch_add(1);
            calls.notify_one();
        }
    };

    thread_team(std::in_place_t, std::size_t members) : members_(members) {}

    // The next call comes only after this one's task has returned, so none is missed.
    void serve(member& self, index i) noexcept {
        for (std::uint32_t answered = 0;; ++answered) {
            self.calls.wait(answered);
            if (task_ == nullptr) return;
            (*task_)(i);
            if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_one();
        }
    }

    // Whether the calling thread is in a task of this team.
    bool inside() const noexcept {
        auto const self = std::this_thread::get_id();
        if (owner_.load(std::memory_order_relaxed) == self) return true;
        return std::any_of(members_.begin(), members_.end(), [&](member const& m) { return m.thread.get_id() == self; });
    }

    std::vector<member> members_;
    std::mutex turn_;
    std::atomic<std::thread::id> owner_{};
    task_ref const* task_ = nullptr;
    std::atomic<std::uint32_t> unfinished_{0};
};

}    // namespace imbrex
