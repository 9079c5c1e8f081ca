// What is refused, and why, before anything is read or written. Knows tensors as shapes, strides and addresses only.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "imbrex/sequences.hpp"
#include "imbrex/status.hpp"

namespace imbrex {

// A tensor without its type.
struct tensor_facts {
    std::uintptr_t address = 0;
    index element_bytes = 1;
    index alignment = 1;
    shape4 shape{};
    strides4 strides{};

    template <class T>
    static tensor_facts of(tensor_view<T> const& v) noexcept {
        return {reinterpret_cast<std::uintptr_t>(v.data), static_cast<index>(sizeof(T)), static_cast<index>(alignof(T)), v.shape,
                v.strides};
    }
    // The log-sum-exp of these queries: one number per row.
    static tensor_facts of(row_stats_view<float> const& v, shape4 const& query) noexcept {
        return {reinterpret_cast<std::uintptr_t>(v.data),
                sizeof(float),
                alignof(float),
                {query.batch, query.tokens, query.heads, 1},
                {v.batch_stride, v.token_stride, v.head_stride, 1}};
    }
    static tensor_facts of(std::span<position const> starts) noexcept {
        return {reinterpret_cast<std::uintptr_t>(starts.data()),
                sizeof(position),
                alignof(position),
                {1, std::ssize(starts), 1, 1},
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

    explicit footprint(tensor_facts const& t) noexcept {
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
inline bool share_memory(tensor_facts const& a, tensor_facts const& b) noexcept {
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

inline status check_sizes(tensor_facts const& t, tensor_role role) noexcept {
    for (index const size : {t.shape.batch, t.shape.tokens, t.shape.heads, t.shape.head_dim}) {
        if (size < 0) return {errc::negative_size, role, size};
    }
    if (t.shape.tokens > max_length) return {errc::too_long, role, t.shape.tokens, max_length};
    if (index const most = std::max(t.shape.batch, t.shape.heads); most > max_length)
        return {errc::too_many, role, most, max_length};
    if (t.shape.head_dim < 1 || t.shape.head_dim > max_head_dim)
        return {errc::head_dim_range, role, t.shape.head_dim, max_head_dim};
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

inline status check_memory(tensor_facts const& t, tensor_role role) noexcept {
    if (t.shape.head_dim > 1 && t.strides.dim != 1) return {errc::dim_stride, role, t.strides.dim};
    if (t.shape.batch == 0 || t.shape.tokens == 0 || t.shape.heads == 0) return {};
    if (t.address == 0) return {errc::null_data, role, t.shape.tokens};
    if (t.address % static_cast<std::uintptr_t>(t.alignment) != 0) return {errc::misaligned, role, t.alignment};
    return check_reach(t, role);
}

// Every result must have an address of its own.
inline status check_distinct(tensor_facts const& t, tensor_role role) noexcept {
    footprint const f{t};
    index inner = t.element_bytes;
    for (int i = 0; i < f.count; ++i) {
        if (f.axes[i].stride_bytes < inner)
            return {errc::output_self_overlap, role, f.axes[i].stride_bytes / t.element_bytes, f.axes[i].size};
        inner = f.axes[i].stride_bytes * (f.axes[i].size - 1) + inner;
    }
    return {};
}

// Starts must rise from 0 or more to the tensor's tokens at most.
inline status check_starts(tensor_facts const& t, tensor_role role, packed_starts const& starts) noexcept {
    if (!starts) return {};
    if (t.shape.batch != 1) return {errc::packed_batch, role, t.shape.batch};
    if (starts->empty()) return {errc::starts_missing, role};
    if (std::ssize(*starts) - 1 > max_length) return {errc::too_many, role, std::ssize(*starts) - 1, max_length};
    position before = 0;
    for (std::size_t i = 0; i < starts->size(); ++i) {
        position const start = (*starts)[i];
        if (start < before) return {errc::starts_order, role, start, static_cast<std::int64_t>(i)};
        before = start;
    }
    if (before > t.shape.tokens) return {errc::starts_beyond, role, before, t.shape.tokens};
    return {};
}

// As many sequences of keys as of queries, or one that serves all.
inline status check_sequences(tensor_facts const& q, tensor_facts const& k, tensor_facts const& v,
                              packing const& packed) noexcept {
    using enum tensor_role;
    if (status const s = check_starts(q, query, packed.q); !s) return s;
    if (status const s = check_starts(k, key, packed.kv); !s) return s;
    if (packed.kv && v.shape.batch != 1) return {errc::packed_batch, value, v.shape.batch};
    index const sequences = sequence_side{q.shape, packed.q}.sequences();
    if (packed.kv) {
        index const of_keys = sequence_side{k.shape, packed.kv}.sequences();
        return of_keys == sequences ? status{} : status{errc::sequence_count, key, of_keys, sequences};
    }
    if (k.shape.batch != sequences && k.shape.batch != 1) return {errc::batch_mismatch, key, k.shape.batch, sequences};
    if (v.shape.batch != sequences && v.shape.batch != 1) return {errc::batch_mismatch, value, v.shape.batch, sequences};
    return {};
}

// What is written lies apart from the sequence starts, which are read all along.
inline status check_starts_apart(tensor_facts const& written, packing const& packed) noexcept {
    using enum tensor_role;
    if (packed.q && share_memory(written, tensor_facts::of(*packed.q))) return {errc::starts_overlap, query};
    if (packed.kv && share_memory(written, tensor_facts::of(*packed.kv))) return {errc::starts_overlap, key};
    return {};
}

}    // namespace detail

// The workspace must be apart from all tensors of the call.
inline status check_workspace(std::byte const* data, std::size_t bytes, std::span<tensor_facts const> tensors,
                              packing const& packed = {}) noexcept {
    auto const first = reinterpret_cast<std::uintptr_t>(data);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].address == 0) continue;
        detail::footprint const f{tensors[i]};
        if (!f.empty() && f.first < first + bytes && first < f.last)
            return {errc::workspace_overlap, static_cast<tensor_role>(i)};
    }
    return detail::check_starts_apart({first, 1, 1, {1, static_cast<index>(bytes), 1, 1}, {0, 1, 0, 1}}, packed);
}

// Everything that a call's tensors can get wrong. row_sums: the log-sum-exp; address 0: not wanted.
inline status check_call(tensor_facts const& q, tensor_facts const& k, tensor_facts const& v, tensor_facts const& out,
                         tensor_facts const& row_sums, packing const& packed = {}) noexcept {
    using enum tensor_role;
    using namespace detail;
    struct {
        tensor_facts const& facts;
        tensor_role role;
    } const tensors[] = {{q, query}, {k, key}, {v, value}, {out, output}};
    for (auto const& t : tensors) {
        if (status const s = check_sizes(t.facts, t.role); !s) return s;
    }
    if (q.shape.head_dim != k.shape.head_dim) return status{errc::head_dim_mismatch, q.shape.head_dim, k.shape.head_dim};
    if (k.shape.heads != v.shape.heads) return status{errc::kv_heads_mismatch, k.shape.heads, v.shape.heads};
    if (k.shape.tokens != v.shape.tokens) return status{errc::kv_tokens_mismatch, k.shape.tokens, v.shape.tokens};
    if (status const s = check_sequences(q, k, v, packed); !s) return s;
    if (q.shape.heads != 0 && (k.shape.heads == 0 || q.shape.heads % k.shape.heads != 0)) {
        return status{errc::heads_not_divisible, q.shape.heads, k.shape.heads};
    }
    index const expected[] = {q.shape.batch, q.shape.tokens, q.shape.heads, v.shape.head_dim};
    index const actual[] = {out.shape.batch, out.shape.tokens, out.shape.heads, out.shape.head_dim};
    for (int i = 0; i < 4; ++i) {
        if (actual[i] != expected[i]) return status{errc::output_shape, i, actual[i], expected[i]};
    }
    for (auto const& t : tensors) {
        if (status const s = check_memory(t.facts, t.role); !s) return s;
    }
    if (status const s = check_distinct(out, output); !s) return s;
    for (auto const& t : {tensors[0], tensors[1], tensors[2]}) {
        if (share_memory(out, t.facts)) return {errc::output_overlaps_input, t.role};
    }
    if (status const s = check_starts_apart(out, packed); !s) return s;
    if (row_sums.address == 0) return {};
    if (status const s = check_memory(row_sums, lse); !s) return s;
    if (status const s = check_distinct(row_sums, lse); !s) return s;
    for (auto const& t : tensors) {
        if (share_memory(row_sums, t.facts)) return {errc::lse_overlap, t.role};
    }
    return check_starts_apart(row_sums, packed);
}

}    // namespace imbrex
