// What is measured: shapes, their names, and tensors of N(0, 1) numbers in memory of a chosen page size.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include <imbrex/imbrex.hpp>

namespace imbrex_bench {

using imbrex::index;

enum class layout { bhsd, bshd };    // order in memory: batch, head, token, dim or batch, token, head, dim
enum class pages { small, huge };    // 4 KB, or 2 MB where the system gives them to those who ask (madvise)

struct shape {
    index batch = 1;
    index q_heads = 8;
    index kv_heads = 8;
    index q_tokens = 0;
    index kv_tokens = 0;
    index head_dim = 0;
    layout order = layout::bhsd;
    pages page = pages::huge;

    imbrex::shape4 q() const { return {batch, q_tokens, q_heads, head_dim}; }
    imbrex::shape4 kv() const { return {batch, kv_tokens, kv_heads, head_dim}; }
    index group() const { return q_heads / kv_heads; }

    std::string name() const {
        std::string n;
        n += 'B' + std::to_string(batch) + "_H" + std::to_string(q_heads) + "_K" + std::to_string(kv_heads) + "_Q" +
             std::to_string(q_tokens) + "_KV" + std::to_string(kv_tokens) + "_D" + std::to_string(head_dim);
        return n + (order == layout::bhsd ? "/bhsd" : "/bshd");
    }
};

// S tokens attending to themselves.
inline shape self_attention(index heads, index tokens, index head_dim, layout order = layout::bhsd) {
    return {.q_heads = heads, .kv_heads = heads, .q_tokens = tokens, .kv_tokens = tokens, .head_dim = head_dim, .order = order};
}

// ---- rules, written down again, so that neither the flops nor the check below depend on the library's own ----
inline std::string_view rule_name(imbrex::full const&) { return "full"; }
inline std::string_view rule_name(imbrex::causal const&) { return "causal"; }

inline constexpr imbrex::causal causal_rule{imbrex::align::bottom_right};

// Keys [0, n) that query i sees.
inline index visible_keys(imbrex::full const&, shape const& s, index) { return s.kv_tokens; }
inline index visible_keys(imbrex::causal const& rule, shape const& s, index i) {
    index const shift = rule.alignment == imbrex::align::bottom_right ? s.kv_tokens - s.q_tokens : 0;
    return std::clamp<index>(i + shift + 1, 0, s.kv_tokens);
}

// 2 head_dim for the score and 2 head_dim for the value, of visible pairs only; the exponentials are not counted.
template <class Rule>
double useful_flops(Rule const& rule, shape const& s) {
    double pairs = 0;
    for (index i = 0; i < s.q_tokens; ++i) pairs += static_cast<double>(visible_keys(rule, s, i));
    return 4.0 * static_cast<double>(s.head_dim) * pairs * static_cast<double>(s.batch * s.q_heads);
}

// ---- memory ----
// Pages of its own from the system, of one kind. Aborts when there is no memory: a benchmark has nothing better to do.
class page_memory {
public:
    page_memory(index bytes, pages kind) : size_{(static_cast<std::size_t>(bytes) + huge_page - 1) / huge_page * huge_page} {
        void* const p = mmap(nullptr, size_ + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            std::perror("benchmark: mmap");
            std::abort();
        }
        mapped_ = static_cast<std::byte*>(p);
        data_ = mapped_ + (huge_page - reinterpret_cast<std::uintptr_t>(p) % huge_page) % huge_page;
#if defined(MADV_HUGEPAGE) && defined(MADV_NOHUGEPAGE)
        madvise(data_, size_, kind == pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
    }
    ~page_memory() { munmap(mapped_, size_ + huge_page); }
    page_memory(page_memory const&) = delete;
    page_memory& operator=(page_memory const&) = delete;

    std::byte* data() const { return data_; }
    index size() const { return static_cast<index>(size_); }

private:
    static constexpr std::size_t huge_page = std::size_t{2} << 20;
    std::size_t size_;
    std::byte* mapped_ = nullptr;
    std::byte* data_ = nullptr;
};

// A fast stand-in for std::normal_distribution, as tensors have up to 10^8 elements: random picks out of 2^16 of its numbers.
class normal_numbers {
public:
    explicit normal_numbers(std::uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15u + 1} {}

    template <class T>
    void fill(T* p, index n) {
        for (index i = 0; i < n; i += 4) {
            std::uint64_t r = next();
            for (index j = i; j < std::min(n, i + 4); ++j, r >>= 16) p[j] = T(table()[r & 0xffff]);
        }
    }

    index below(index n) { return static_cast<index>(next() >> 1) % n; }

private:
    static std::array<float, 65536> const& table() {
        static auto const t = [] {
            std::array<float, 65536> numbers;
            std::mt19937_64 engine{20240229};
            std::normal_distribution<float> normal;
            for (float& x : numbers) x = normal(engine);
            return numbers;
        }();
        return t;
    }
    // splitmix64 (Steele, Lea, Flood 2014).
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    std::uint64_t state_;
};

// A (batch, token, head, dim) tensor that owns its pages.
template <class T>
class tensor {
public:
    tensor(imbrex::shape4 s, layout order, pages kind, std::uint64_t seed)
        : shape_{s}, order_{order}, memory_{s.elements() * static_cast<index>(sizeof(T)), kind} {
        normal_numbers{seed}.fill(data(), s.elements());
    }
    T* data() const { return reinterpret_cast<T*>(memory_.data()); }
    index bytes() const { return shape_.elements() * static_cast<index>(sizeof(T)); }
    imbrex::tensor_view<T> view() const {
        return order_ == layout::bhsd ? imbrex::bhsd(data(), shape_) : imbrex::bshd(data(), shape_);
    }
    imbrex::tensor_view<T const> input() const { return view(); }

private:
    imbrex::shape4 shape_;
    layout order_;
    page_memory memory_;
};

template <class T>
struct tensors {
    tensor<T> q, k, v, out;

    explicit tensors(shape const& s)
        : q{s.q(), s.order, s.page, 1},
          k{s.kv(), s.order, s.page, 2},
          v{s.kv(), s.order, s.page, 3},
          out{s.q(), s.order, s.page, 4} {}

    imbrex::dense_kv<T> kv() const { return {k.input(), v.input()}; }
    // Bytes that must cross the memory bus at least once.
    index least_bytes() const { return q.bytes() + kv_bytes() + out.bytes(); }
    index kv_bytes() const { return k.bytes() + v.bytes(); }
};

}    // namespace imbrex_bench
