// Scratch memory is the caller's. A call uses nothing else, unless it is told allocate{}.
#pragma once

#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "imbrex/config.hpp"

namespace imbrex {

// "Allocate the workspace for me, and free it before returning."
struct allocate {};

inline constexpr std::size_t cache_line_bytes = 64;

// The caller's bytes (any alignment; workspace_bytes() counts the padding), or allocate{}, or nothing.
class workspace_ref {
public:
    constexpr workspace_ref() noexcept = default;
    constexpr workspace_ref(allocate) noexcept : may_allocate_{true} {}
    constexpr workspace_ref(std::span<std::byte> bytes) noexcept : data_{bytes.data()}, size_{bytes.size()} {}
    template <class Bytes>
        requires requires(Bytes& b) { std::span<std::byte>{b}; }
    constexpr workspace_ref(Bytes& bytes) noexcept : workspace_ref{std::span<std::byte>{bytes}} {}

    constexpr bool may_allocate() const noexcept { return may_allocate_; }
    constexpr std::byte* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    bool may_allocate_ = false;
};

// Memory for one call: the caller's where there is some, else from the heap, freed by the destructor.
class call_memory {
public:
    call_memory(workspace_ref workspace, std::size_t bytes) noexcept {
        if (!workspace.may_allocate()) {
            data_ = workspace.data();
        } else {
            std::size_t const rounded = (bytes + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
            data_ = owned_ = static_cast<std::byte*>(std::aligned_alloc(cache_line_bytes, rounded));
        }
    }
    ~call_memory() { std::free(owned_); }
    call_memory(call_memory const&) = delete;
    call_memory& operator=(call_memory const&) = delete;

    std::byte* data() const noexcept { return data_; }

private:
    std::byte* data_ = nullptr;
    std::byte* owned_ = nullptr;
};

// Up to N objects that need no destructor, made one after another where they stay.
template <class T, index N>
class fixed_list {
public:
    template <class... From>
    T& add(From&&... from) noexcept {
        static_assert(std::is_trivially_destructible_v<T>);
        return *new (memory_ + static_cast<std::size_t>(count_++) * sizeof(T)) T{std::forward<From>(from)...};
    }
    std::span<T> all() noexcept { return {reinterpret_cast<T*>(memory_), static_cast<std::size_t>(count_)}; }
    T& operator[](index i) noexcept { return all()[static_cast<std::size_t>(i)]; }

private:
    alignas(T) std::byte memory_[static_cast<std::size_t>(N) * sizeof(T)];
    index count_ = 0;
};

// Cuts pieces off a block. The same walk over a null block counts the bytes, so that size and use cannot disagree.
class arena {
public:
    constexpr explicit arena(std::byte* base) noexcept : base_{base} {}

    template <class T>
    T* take(index count) noexcept {
        std::size_t const bytes = static_cast<std::size_t>(count) * sizeof(T);
        std::size_t const begin = used_;
        used_ += (bytes + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
        return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + begin);
    }
    // Skips bytes so that two pieces read side by side do not share the sets of L1.
    constexpr void skip(std::size_t bytes) noexcept { used_ += bytes; }
    constexpr std::size_t used() const noexcept { return used_; }

private:
    std::byte* base_;
    std::size_t used_ = 0;
};

}    // namespace imbrex
