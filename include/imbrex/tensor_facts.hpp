// Tensors as shapes, strides and addresses: where they reach, and whether they share memory.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "imbrex/encoding.hpp"
#include "imbrex/status.hpp"
#include "imbrex/view.hpp"

namespace imbrex {

// A tensor without its type.
struct tensor_facts {
    std::uintptr_t address = 0;
    index element_bytes = 1;
    index alignment = 1;
    shape4 shape{};
    strides4 strides{};
    index values_each = 1;    // numbers in an element: of blocks more than one

    // Numbers in a row.
    constexpr index row_numbers() const noexcept { return shape.head_dim * values_each; }

    template <class T>
    static tensor_facts of(tensor_view<T> const& v) noexcept {
        index values_each = 1;
        if constexpr (kv_element<std::remove_const_t<T>>) values_each = values_per_unit<std::remove_const_t<T>>;
        return {reinterpret_cast<std::uintptr_t>(v.data),
                static_cast<index>(sizeof(T)),
                static_cast<index>(alignof(T)),
                v.shape,
                v.strides,
                values_each};
    }
    // The log-sum-exp of these queries: one number per row.
    static tensor_facts of(row_stats_view<float> const& v, shape4 const& query) noexcept {
        return {reinterpret_cast<std::uintptr_t>(v.data),
                sizeof(float),
                alignof(float),
                {query.batch, query.tokens, query.heads, 1},
                {v.batch_stride, v.token_stride, v.head_stride, 1}};
    }
    static tensor_facts of(std::span<position const> numbers) noexcept {
        return {reinterpret_cast<std::uintptr_t>(numbers.data()),
                sizeof(position),
                alignof(position),
                {1, std::ssize(numbers), 1, 1},
                {0, 1, 0, 1}};
    }
};

namespace detail {

struct axis {
    index size;
    index stride_bytes;    // never negative
};

// Bytes [first, last) that the tensor may touch, and its axes without those of size 1.
struct footprint {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    axis axes[4] = {};
    int count = 0;

    IMBREX_NOINLINE explicit footprint(tensor_facts const& t) noexcept {
        index const sizes[] = {t.shape.batch, t.shape.tokens, t.shape.heads, t.shape.head_dim};
        index const strides[] = {t.strides.batch, t.strides.token, t.strides.head, 1};
        first = last = t.address;
        for (int i = 0; i < 4; ++i) {
            if (sizes[i] == 0) {
                last = first;
                count = 0;
                return;
            }
            if (sizes[i] == 1) continue;
            index const reach = (sizes[i] - 1) * strides[i] * t.element_bytes;
            (reach < 0 ? first : last) += static_cast<std::uintptr_t>(reach);
            axes[count++] = {sizes[i], std::abs(strides[i]) * t.element_bytes};
        }
        last += static_cast<std::uintptr_t>(t.element_bytes);
        for (int i = 1; i < count; ++i) {    // by stride
            for (int j = i; j > 0 && axes[j].stride_bytes < axes[j - 1].stride_bytes; --j) std::swap(axes[j], axes[j - 1]);
        }
    }
    bool empty() const noexcept { return first == last; }
};

// Bytes from one token to the next, or from one sequence to the next where there is one token each; 0 where there is but one row.
inline index period_of(tensor_facts const& t) noexcept {
    if (t.shape.tokens > 1) return t.strides.token * t.element_bytes;
    return t.shape.batch > 1 ? t.strides.batch * t.element_bytes : 0;
}

// Whether some element of one lies on an element of the other. Two slices of one packed buffer (the same period, each within it)
// interleave without touching; otherwise ranges that cross count as shared.
IMBREX_NOINLINE inline bool share_memory(tensor_facts const& a, tensor_facts const& b) noexcept {
    footprint const fa{a}, fb{b};
    if (fa.empty() || fb.empty() || fa.last <= fb.first || fb.last <= fa.first) return false;
    index const period = period_of(a);
    if (period <= 0 || period != period_of(b)) return true;
    auto const regular = [&](tensor_facts const& t) {    // repeats with the period, and its heads lie upwards
        return (t.shape.batch == 1 || t.strides.batch * t.element_bytes % period == 0) &&
               (t.shape.heads == 1 || t.strides.head >= 0);
    };
    auto const within = [](tensor_facts const& t) {    // bytes of one token, all heads
        return ((t.shape.heads - 1) * (t.shape.heads > 1 ? t.strides.head : 0) + t.shape.head_dim) * t.element_bytes;
    };
    if (!regular(a) || !regular(b)) return true;
    index const forward = static_cast<index>(b.address - a.address) % period;
    index const offset = forward < 0 ? forward + period : forward;
    return !(within(a) <= offset && offset + within(b) <= period);
}

// Whether rows of two tensors meet, found exactly wherever an entry's tokens and heads nest, as in views of one pool whose pages
// hold keys and values side by side. Where strides are so odd that the search grows long they count as meeting.
//
// A row of b lies x bytes after one of a, x = b.first - a.first + sum of i_n stride_n over all axes of both, and they meet where
// x is in (-b's row, a's row). From the largest stride down only those i are tried that what is left can still bring there.
class row_meeting {
public:
    row_meeting(tensor_facts const& a, tensor_facts const& b) noexcept {
        footprint const fa{a}, fb{b};
        crosses_ = !fa.empty() && !fb.empty() && fa.first < fb.last && fb.first < fa.last;
        if (!crosses_) return;
        row_a_ = a.shape.head_dim * a.element_bytes, row_b_ = b.shape.head_dim * b.element_bytes;
        add_axes(fa, a, -1);
        add_axes(fb, b, 1);
        for (int i = 1; i < count_; ++i) {    // from the largest stride down
            for (int j = i; j > 0 && steps_[j].bytes > steps_[j - 1].bytes; --j) std::swap(steps_[j], steps_[j - 1]);
        }
        apart_ = static_cast<index>(fb.first - fa.first);
    }
    bool found() noexcept { return crosses_ && reaches(0, apart_); }

private:
    struct step {
        index bytes, low, high;    // low <= i <= high
    };

    // All but the one along a row.
    void add_axes(footprint const& f, tensor_facts const& t, index sign) noexcept {
        bool row_seen = t.shape.head_dim == 1;
        for (int i = 0; i < f.count; ++i) {
            bool const along = !row_seen && f.axes[i].stride_bytes == t.element_bytes && f.axes[i].size == t.shape.head_dim;
            row_seen = row_seen || along;
            if (!along) add(f.axes[i], sign);
        }
    }
    void add(axis const& x, index sign) noexcept {
        index const most = sign * (x.size - 1);
        for (int i = 0; i < count_; ++i) {
            if (steps_[i].bytes != x.stride_bytes) continue;
            (sign < 0 ? steps_[i].low : steps_[i].high) += most;
            return;
        }
        steps_[count_++] = {x.stride_bytes, sign < 0 ? most : 0, sign < 0 ? 0 : most};
    }
    bool reaches(int n, index x) noexcept {
        if (--budget_ < 0) return true;
        if (n == count_) return x < row_a_ && x > -row_b_;
        index low = x, high = x;    // of what the smaller strides reach
        for (int i = n + 1; i < count_; ++i) low += steps_[i].low * steps_[i].bytes, high += steps_[i].high * steps_[i].bytes;
        step const& s = steps_[n];
        if (s.bytes == 0) return reaches(n + 1, x);
        auto const floor_div = [](index p, index q) { return p / q - (p % q < 0 ? 1 : 0); };
        index const last = std::min(s.high, -floor_div(low - row_a_, s.bytes) - 1);
        for (index i = std::max(s.low, floor_div(-row_b_ - high, s.bytes) + 1); i <= last; ++i) {
            if (reaches(n + 1, x + i * s.bytes)) return true;
        }
        return false;
    }

    step steps_[8];
    int count_ = 0;
    int budget_ = 4096;
    index row_a_ = 0, row_b_ = 0, apart_ = 0;
    bool crosses_ = false;
};

inline bool rows_meet(tensor_facts const& a, tensor_facts const& b) noexcept { return row_meeting{a, b}.found(); }

IMBREX_NOINLINE inline status check_sizes(tensor_facts const& t, tensor_role role) noexcept {
    for (index const size : {t.shape.batch, t.shape.tokens, t.shape.heads, t.shape.head_dim}) {
        if (size < 0) return {errc::negative_size, role, size};
    }
    if (t.shape.tokens > max_length) return {errc::too_long, role, t.shape.tokens, max_length};
    if (index const most = std::max(t.shape.batch, t.shape.heads); most > max_length)
        return {errc::too_many, role, most, max_length};
    if (t.shape.head_dim < 1 || t.shape.head_dim > max_head_dim / t.values_each)
        return {errc::head_dim_range, role, t.shape.head_dim, max_head_dim / t.values_each};
    return {};
}

// Each axis, and all together, within an eighth of the address space, so that no later arithmetic on them overflows.
inline status check_reach(tensor_facts const& t, tensor_role role) noexcept {
    constexpr index limit = index{1} << 60;
    index const sizes[] = {t.shape.batch, t.shape.tokens, t.shape.heads};
    index const strides[] = {t.strides.batch, t.strides.token, t.strides.head};
    for (int i = 0; i < 3; ++i) {
        index reach = 0;
        bool const overflow = __builtin_mul_overflow(std::max<index>(1, sizes[i]), strides[i], &reach) ||
                              __builtin_mul_overflow(reach, t.element_bytes, &reach);
        if (sizes[i] > 1 && (overflow || reach > limit || reach < -limit)) return {errc::too_far, role, sizes[i], strides[i]};
    }
    return {};
}

IMBREX_NOINLINE inline status check_memory(tensor_facts const& t, tensor_role role) noexcept {
    if (t.shape.head_dim > 1 && t.strides.dim != 1) return {errc::dim_stride, role, t.strides.dim};
    if (t.shape.batch == 0 || t.shape.tokens == 0 || t.shape.heads == 0) return {};
    if (t.address == 0) return {errc::null_data, role, t.shape.tokens};
    if (t.address % static_cast<std::uintptr_t>(t.alignment) != 0) return {errc::misaligned, role, t.alignment};
    return check_reach(t, role);
}

// Every result must have an address of its own.
IMBREX_NOINLINE inline status check_distinct(tensor_facts const& t, tensor_role role) noexcept {
    footprint const f{t};
    index inner = t.element_bytes;
    for (int i = 0; i < f.count; ++i) {
        if (f.axes[i].stride_bytes < inner)
            return {errc::output_self_overlap, role, f.axes[i].stride_bytes / t.element_bytes, f.axes[i].size};
        inner = f.axes[i].stride_bytes * (f.axes[i].size - 1) + inner;
    }
    return {};
}

}    // namespace detail

}    // namespace imbrex
