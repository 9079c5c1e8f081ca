// Who runs the work: the caller's threads, through one small concept.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

#include "imbrex/config.hpp"

namespace imbrex {

class task_ref;
class executor_ref;

namespace detail {

// What a reference may be made of; not of a reference itself, which is copied.
template <class F>
concept task = !std::same_as<std::remove_cvref_t<F>, task_ref> && std::invocable<F&, index>;

}    // namespace detail

// A task to run for i in [0, n). A reference to a callable of the library's; valid during run() only.
class task_ref {
public:
    template <detail::task F>
    task_ref(F& f) noexcept
        : object_{const_cast<void*>(static_cast<void const*>(std::addressof(f)))}, call_{[](void* object, index i) {
              (*static_cast<F*>(object))(i);
          }} {}

    void operator()(index i) const { call_(object_, i); }

private:
    void* object_;
    void (*call_)(void*, index);
};

// run(n, task) calls task(i) for every i in [0, n), n <= max_workers(), each i once, on any threads and in any order, at the
// same time or one after another, and returns when all have returned. Task i owns scratch slot i of the workspace.
// What run wrote before a task must be visible to it, and what tasks wrote must be visible to the caller after run.
template <class E>
concept executor = requires(E& e, index n, task_ref task) {
    e.run(n, task);
    { e.max_workers() } -> std::convertible_to<index>;
};

namespace detail {

template <class E>
concept other_executor = !std::same_as<std::remove_cv_t<E>, executor_ref> && executor<E>;

}    // namespace detail

// The default: the caller's own thread.
struct serial_executor {
    static void run(index n, task_ref task) {
        for (index i = 0; i < n; ++i) task(i);
    }
    static constexpr index max_workers() noexcept { return 1; }
};

// A reference to any executor, so that options is no template. Costs two indirect calls a phase.
class executor_ref {
public:
    executor_ref() noexcept
        : object_{nullptr}, run_{[](void*, index n, task_ref task) { serial_executor::run(n, task); }}, max_workers_{[](void*) {
              return serial_executor::max_workers();
          }} {}

    template <detail::other_executor E>
    executor_ref(E& e) noexcept
        : object_{const_cast<void*>(static_cast<void const*>(std::addressof(e)))},
          run_{[](void* object, index n, task_ref task) { static_cast<E*>(object)->run(n, task); }},
          max_workers_{[](void* object) { return static_cast<index>(static_cast<E*>(object)->max_workers()); }} {}

    void run(index n, task_ref task) const { run_(object_, n, task); }
    index max_workers() const { return max_workers_(object_); }

private:
    void* object_;
    void (*run_)(void*, index, task_ref);
    index (*max_workers_)(void*);
};

}    // namespace imbrex
