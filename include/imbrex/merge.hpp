// Merging partial results: attention over parts of the keys, into attention over all of them.
//
// Part i has the output o_i, normalised, and the log-sum-exp L_i of its scores. With L = log(sum_i e^L_i),
//   o = sum_i e^(L_i - L) o_i,
// which is exact: o_i = (1 / e^L_i) sum_j e^(s_j) v_j over the keys of part i. The online softmax of Milakov & Gimelshein 2018
// (arXiv:1805.02867) merges running sums in this way; Flash-Decoding (Dao et al. 2023) and FlashInfer (Ye et al. 2025,
// arXiv:2501.01005, sec. 2.2) normalised states. Memory traffic: each part's output once, the merged output once.
//
// What it serves: cascades (a prefix that sequences share is attended to once, with the queries of all of them as the tokens of
// one sequence, each one's own suffix apart, and the two are merged); prefill that takes the keys in chunks; keys spread over
// hosts.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "imbrex/checks.hpp"
#include "imbrex/executor.hpp"
#include "imbrex/simd.hpp"

namespace imbrex {

// What attention over some of the keys came to.
//   out  (batch, tokens, heads, head_dim_v), any strides but 1 along head_dim
//   lse  natural logarithm of the sum of e^score, per row; -inf: the part has no keys for it, and its row of `out` is not used
template <class T>
struct partial_state {
    tensor_view<T const> out;
    row_stats_view<float const> lse;
};

template <class T>
partial_state(tensor_view<T>, row_stats_view<float>) -> partial_state<std::remove_const_t<T>>;
template <class T>
partial_state(tensor_view<T>, row_stats_view<float const>) -> partial_state<std::remove_const_t<T>>;

namespace detail {

template <class Part>
struct part_element {
    static_assert(sizeof(Part) == 0, "imbrex: merge takes partial_state{out, lse} of each part");
};
template <class T>
struct part_element<partial_state<T>> {
    using type = T;
};

// The log-sum-exp of these outputs; it is only looked at.
inline tensor_facts facts_of_lse(row_stats_view<float const> const& v, shape4 const& out) noexcept {
    return tensor_facts::of(row_stats_view<float>{const_cast<float*>(v.data), v.batch_stride, v.head_stride, v.token_stride},
                            out);
}

// Whether the two are one tensor: every element has the same place in both.
inline bool coincide(tensor_facts const& a, tensor_facts const& b) noexcept {
    if (a.address != b.address || a.element_bytes != b.element_bytes || a.shape != b.shape) return false;
    return (a.shape.batch == 1 || a.strides.batch == b.strides.batch) &&
           (a.shape.tokens == 1 || a.strides.token == b.strides.token) &&
           (a.shape.heads == 1 || a.strides.head == b.strides.head);
}

inline status check_merged(tensor_facts const& out, tensor_facts const& lse) noexcept {
    if (status const s = check_sizes(out, tensor_role::output); !s) return s;
    if (status const s = check_memory(out, tensor_role::output); !s) return s;
    if (status const s = check_distinct(out, tensor_role::output); !s) return s;
    if (lse.address == 0) return {};
    if (status const s = check_memory(lse, tensor_role::lse); !s) return s;
    if (status const s = check_distinct(lse, tensor_role::lse); !s) return s;
    if (share_memory(out, lse)) return {errc::lse_overlap, tensor_role::output};
    return {};
}

// same_type: of the part's elements and the merged output's.
inline status check_part(index i, tensor_facts const& part, tensor_facts const& part_lse_facts, tensor_facts const& merged,
                         tensor_facts const& merged_lse, bool same_type) noexcept {
    tensor_role const output_role = part_output(i), lse_role = part_lse(i);
    index const expected[] = {merged.shape.batch, merged.shape.tokens, merged.shape.heads, merged.shape.head_dim};
    index const actual[] = {part.shape.batch, part.shape.tokens, part.shape.heads, part.shape.head_dim};
    for (int axis = 0; axis < 4; ++axis) {
        if (actual[axis] != expected[axis]) return {errc::part_shape, output_role, axis, actual[axis]};
    }
    if (status const s = check_memory(part, output_role); !s) return s;
    if (status const s = check_memory(part_lse_facts, lse_role); !s) return s;
    auto const overlap = [](tensor_role written, tensor_role read) {
        return status{errc::part_overlap, written, static_cast<std::int64_t>(read)};
    };
    using enum tensor_role;
    if (share_memory(merged, part) && !(same_type && coincide(merged, part))) return overlap(output, output_role);
    if (share_memory(merged, part_lse_facts)) return overlap(output, lse_role);
    if (merged_lse.address == 0) return {};
    if (share_memory(merged_lse, part)) return overlap(lse, output_role);
    if (share_memory(merged_lse, part_lse_facts) && !coincide(merged_lse, part_lse_facts)) return overlap(lse, lse_role);
    return {};
}

}    // namespace detail

}    // namespace imbrex

IMBREX_ISA_BEGIN

namespace merge_detail {

// The weights e^(lse - top) of one row's parts. In double: no log-sum-exp of floats overflows there.
struct row_weights {
    double top = -std::numeric_limits<double>::infinity();
    double sum = 0;

    template <class T>
    row_weights(std::span<partial_state<T> const> parts, index b, index head, index token) noexcept {
        for (auto const& p : parts) {    // a NaN may be lost here; its weight shows it
            double const lse = *p.lse.at(b, head, token);
            if (!(lse <= top)) top = lse;
        }
        for (auto const& p : parts) sum += weight(*p.lse.at(b, head, token));
    }
    // inf - inf would be NaN: rows of infinite weight share it, and rows without keys have none.
    double weight(double lse) const noexcept {
        if (lse == -std::numeric_limits<double>::infinity()) return 0;
        return lse == top ? 1 : std::exp(lse - top);
    }
    float log_sum_exp() const noexcept {
        return sum == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(top + std::log(sum));
    }
};

// sum = weight * row, or sum + weight * row.
enum class row_is { first, next };

template <class T, class E>
IMBREX_NOINLINE void add_row(E const* row, index n, T weight, row_is which, T* sum) noexcept {
    constexpr index W = lane_count<T>;
    lanes<T> const w(weight);
    for (index d = 0; d < n; d += W) {
        lanes<T> const x = d + W <= n ? seam<T>::load(row + d) : seam<T>::load_first(row + d, static_cast<int>(n - d));
        (which == row_is::first ? x * w : seam<T>::fma(x, w, lanes<T>::load_aligned(sum + d))).store_aligned(sum + d);
    }
}

template <class T, class O>
void store_row(T const* sum, index n, O* row) noexcept {
    constexpr index W = lane_count<T>;
    index d = 0;
    for (; d + W <= n; d += W) seam<T>::store(row + d, lanes<T>::load_aligned(sum + d));
    if (d < n) seam<T>::store_first(row + d, lanes<T>::load_aligned(sum + d), static_cast<int>(n - d));
}

// All is read of a row before any of it is written, so that a part may be the output.
template <class E, class O>
void merge_row(std::span<partial_state<E> const> parts, tensor_view<O> const& out, row_stats_view<float> const& lse, index b,
               index token, index head) noexcept {
    using T = std::conditional_t<std::is_same_v<O, double>, double, float>;
    index const n = out.shape.head_dim;
    row_weights const weights{parts, b, head, token};
    alignas(64) T sum[max_head_dim];
    row_is which = row_is::first;
    for (auto const& p : parts) {
        double const of_part = *p.lse.at(b, head, token);
        if (of_part == -std::numeric_limits<double>::infinity()) continue;
        auto const* const row = reinterpret_cast<storage_of<E> const*>(p.out.row(b, token, head));
        add_row<T>(row, n, static_cast<T>(weights.weight(of_part) / weights.sum), which, sum);
        which = row_is::next;
    }
    if (which == row_is::first) std::fill_n(sum, n, T(0));
    store_row(sum, n, reinterpret_cast<storage_of<O>*>(out.row(b, token, head)));
    if (lse.data != nullptr) *lse.at(b, head, token) = weights.log_sum_exp();
}

template <class E, class O>
status checked_merge(std::span<partial_state<E> const> parts, tensor_view<O> const& out, row_stats_view<float> const& lse,
                     executor_ref executor) {
    constexpr index rows_per_task = 64;    // at least
    tensor_facts const merged = tensor_facts::of(out);
    tensor_facts const merged_lse = lse.data == nullptr ? tensor_facts{} : tensor_facts::of(lse, out.shape);
    if (status const s = detail::check_merged(merged, merged_lse); !s) return s;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        status const s = detail::check_part(static_cast<index>(i), tensor_facts::of(parts[i].out),
                                            detail::facts_of_lse(parts[i].lse, parts[i].out.shape), merged, merged_lse,
                                            std::is_same_v<storage_of<E>, storage_of<O>>);
        if (!s) return s;
    }
    index const workers = executor.max_workers();
    if (workers < 1 || workers > max_workers) return {errc::no_workers, workers, max_workers};
    index const rows = out.shape.batch * out.shape.tokens * out.shape.heads;
    if (rows == 0) return {};
    index const tasks = std::min(workers, (rows + rows_per_task - 1) / rows_per_task);
    auto task = [&](index i) {
        auto const first_of = [&](index t) { return rows / tasks * t + std::min(t, rows % tasks); };
        for (index r = first_of(i); r < first_of(i + 1); ++r) {
            index const entry = r / out.shape.heads;
            merge_row(parts, out, lse, entry / out.shape.tokens, entry % out.shape.tokens, r % out.shape.heads);
        }
    };
    executor.run(tasks, task);
    return {};
}

}    // namespace merge_detail

// out, lse = what attention over the keys of all parts gives, to rounding. lse: as in options.lse; not wanted unless given.
//   parts  any number of partial_state of one element type, all of the output's shape; none: 0 and -inf, the identity
//   out    (batch, tokens, heads, head_dim_v) of any float type (f64 of f64 parts only)
// Associative and commutative to rounding; always in the order given, on any executor, so that the same call gives the same bits.
// A part that is empty (-inf) changes nothing, not even a bit, and its output is not read. NaN stays. Rows of log-sum-exp +inf
// share the whole weight equally. An Inf in a part's output becomes NaN where its weight is 0. A sink must be in one part only:
// give it to the call of one part, or it counts as often as there are parts. In place: out may be a part's output exactly, and
// lse a part's lse. Errors: any other overlap, unlike shapes, strides, null data. Nothing is written then.
template <class Parts, class O>
    requires requires(Parts const& p) { std::span{p}; }
status merge(Parts const& parts, tensor_view<O> out, row_stats_view<float> lse = {}, executor_ref executor = {}) {
    std::span const all{parts};
    using E = typename detail::part_element<std::remove_cvref_t<decltype(all[0])>>::type;
    static_assert(!std::is_const_v<O>, "imbrex: the merged output is of const elements; pass a view of writable ones");
    static_assert(
        element<E> && element<O>,
        "imbrex: merge takes float, double, imbrex::f16, imbrex::bf16, _Float16 or std::bfloat16_t; if 16-bit words are "
        "bf16 or f16, say which with as_f16(p) or as_bf16(p)");
    static_assert(std::is_same_v<E, double> == std::is_same_v<O, double>,
                  "imbrex: f64 parts merge into an f64 output, and others into others");
    return merge_detail::checked_merge<E, O>(all, out, lse, executor);
}

// The same of two.
template <class T, class O>
status merge(partial_state<T> const& a, partial_state<T> const& b, tensor_view<O> out, row_stats_view<float> lse = {},
             executor_ref executor = {}) {
    partial_state<T> const both[] = {a, b};
    return imbrex::merge(both, out, lse, executor);
}

IMBREX_ISA_END
