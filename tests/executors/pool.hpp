// A thread pool as users have one, for the tests of submit_executor.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "imbrex/executors/submit.hpp"

namespace imbrex_test {

// A locked queue of std::function.
class pool {
public:
    explicit pool(int threads) {
        for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { work(); });
    }
    ~pool() {
        {
            std::scoped_lock const lock{mutex_};
            closing_ = true;
        }
        woken_.notify_all();
        for (std::thread& t : threads_) t.join();
    }
    void submit(std::function<void()> job) {
        {
            std::scoped_lock const lock{mutex_};
            jobs_.push_back(std::move(job));
        }
        woken_.notify_one();
    }

private:
    void work() {
        for (;;) {
            std::unique_lock lock{mutex_};
            woken_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            auto const job = std::move(jobs_.front());
            jobs_.pop_front();
            lock.unlock();
            job();
        }
    }

    std::mutex mutex_;
    std::condition_variable woken_;
    std::deque<std::function<void()>> jobs_;
    bool closing_ = false;
    std::vector<std::thread> threads_;
};

inline auto executor_on(pool& p, imbrex::index workers) {
    return imbrex::submit_executor{[&p](auto job) { p.submit(job); }, workers};
}

}    // namespace imbrex_test
