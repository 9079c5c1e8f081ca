// Memory that faults when it is overrun: the array touches a page that nobody may read or write.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace imbrex_test {

// Where the forbidden page lies: right after the last element, or right before the first.
enum class guard { after, before };

// `count` elements between forbidden pages, as close to one of them as the guard says; their bytes are all 0xff at first, which
// is NaN in every element type. Without elements, data() is the address of a forbidden page.
template <class T>
class guarded {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    explicit guarded(std::size_t count, guard where = guard::after) : count_{count} {
        std::size_t const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        std::size_t const inner = (count * sizeof(T) + page - 1) / page * page;
        mapped_ = inner + 2 * page;
        void* const base = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) std::abort();
        base_ = static_cast<std::byte*>(base);
        if (inner > 0 && mprotect(base_ + page, inner, PROT_READ | PROT_WRITE) != 0) std::abort();
        std::byte* const first = where == guard::before ? base_ + page : base_ + page + inner - count * sizeof(T);
        data_ = reinterpret_cast<T*>(first);
        poison();
    }
    guarded(guarded&& other) noexcept
        : base_{std::exchange(other.base_, nullptr)}, data_{other.data_}, count_{other.count_}, mapped_{other.mapped_} {}
    guarded& operator=(guarded&&) = delete;
    ~guarded() {
        if (base_ != nullptr) munmap(base_, mapped_);
    }

    T* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return count_; }
    T& operator[](std::size_t i) const noexcept { return data_[i]; }
    T* begin() const noexcept { return data_; }
    T* end() const noexcept { return data_ + count_; }

    void poison() const noexcept {
        if (count_ > 0) std::memset(static_cast<void*>(data_), 0xff, count_ * sizeof(T));
    }
    bool poisoned() const noexcept {
        auto const* const bytes = reinterpret_cast<unsigned char const*>(data_);
        for (std::size_t i = 0; i < count_ * sizeof(T); ++i) {
            if (bytes[i] != 0xff) return false;
        }
        return true;
    }

private:
    std::byte* base_;
    T* data_;
    std::size_t count_;
    std::size_t mapped_;
};

}    // namespace imbrex_test
