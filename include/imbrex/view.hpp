// Views over the caller's memory. They own nothing, and they know nothing of the instruction set.
#pragma once

#include <optional>
#include <span>
#include <type_traits>

#include "imbrex/config.hpp"

namespace imbrex {

struct shape4 {
    index batch = 0;
    index tokens = 0;
    index heads = 0;
    index head_dim = 0;

    constexpr index elements() const noexcept { return batch * tokens * heads * head_dim; }
    friend constexpr bool operator==(shape4 const&, shape4 const&) = default;
};

// In elements, one per axis of shape4; may be 0 (an expanded axis) or negative in inputs. `dim` must be 1.
struct strides4 {
    index batch = 0;
    index token = 0;
    index head = 0;
    index dim = 1;
    friend constexpr bool operator==(strides4 const&, strides4 const&) = default;
};

// A (batch, token, head, head_dim) tensor in memory of any of the usual orders. Strides of axes of size 1 are ignored.
template <class T>
struct tensor_view {
    T* data = nullptr;
    shape4 shape{};
    strides4 strides{};

    constexpr T* row(index b, index token, index head) const noexcept {
        return data + (b * strides.batch + token * strides.token + head * strides.head);
    }
    constexpr operator tensor_view<T const>() const noexcept requires(!std::is_const_v<T>) { return {data, shape, strides}; }
};

// Any strides, e.g. a slice of a packed QKV buffer.
template <class T>
constexpr tensor_view<T> strided(T* data, shape4 shape, strides4 strides) noexcept {
    return {data, shape, strides};
}

// Contiguous memory in the order batch, token, head, head_dim.
template <class T>
constexpr tensor_view<T> bshd(T* data, shape4 shape) noexcept {
    index const token = shape.heads * shape.head_dim;
    return {data, shape, {shape.tokens * token, token, shape.head_dim, 1}};
}

// Contiguous memory in the order batch, head, token, head_dim.
template <class T>
constexpr tensor_view<T> bhsd(T* data, shape4 shape) noexcept {
    index const head = shape.tokens * shape.head_dim;
    return {data, shape, {shape.heads * head, shape.head_dim, head, 1}};
}

// Where packed sequences start (cu_seqlens): sequence s has the tokens [starts[s], starts[s + 1]). None: tokens are not packed.
using packed_starts = std::optional<std::span<position const>>;

// Queries of sequences packed one after another: tokens (1, total tokens, heads, head_dim), and one start more than there are
// sequences. Sequences may be empty; tokens before the first and after the last are no queries. The output and the log-sum-exp
// are packed in the same way.
template <class T>
struct packed_queries {
    tensor_view<T const> tokens;
    std::span<position const> starts;
};

template <class T>
packed_queries(tensor_view<T>, std::span<position const>) -> packed_queries<std::remove_const_t<T>>;

// One number per query row, e.g. its log-sum-exp. Strides in elements; a null `data` means "not wanted".
template <class T>
struct row_stats_view {
    T* data = nullptr;
    index batch_stride = 0;
    index head_stride = 0;
    index token_stride = 0;

    constexpr T* at(index b, index head, index token) const noexcept {
        return data + (b * batch_stride + head * head_stride + token * token_stride);
    }
    constexpr operator row_stats_view<T const>() const noexcept requires(!std::is_const_v<T>) {
        return {data, batch_stride, head_stride, token_stride};
    }
};

// Contiguous (batch, head, token) statistics for queries of this shape.
template <class T>
constexpr row_stats_view<T> bhs(T* data, shape4 query_shape) noexcept {
    return {data, query_shape.heads * query_shape.tokens, query_shape.tokens, 1};
}

// A matrix over the scores of each head, in the caller's memory: a mask or a bias. Strides in elements. An axis of size 1 serves
// every sequence, head, query or key, and its stride is ignored.
struct score_shape {
    index batch = 1, heads = 1, q_tokens = 1, kv_tokens = 1;
};
struct score_strides {
    index batch = 0, head = 0, query = 0, key = 0;
};

template <class T>
struct score_view {
    T* data = nullptr;
    score_shape shape{};
    score_strides strides{};

    constexpr T& at(index b, index h, index q, index kv) const noexcept {
        return data[(shape.batch == 1 ? 0 : b * strides.batch) + (shape.heads == 1 ? 0 : h * strides.head) +
                    (shape.q_tokens == 1 ? 0 : q * strides.query) + (shape.kv_tokens == 1 ? 0 : kv * strides.key)];
    }
    constexpr operator score_view<T const>() const noexcept requires(!std::is_const_v<T>) { return {data, shape, strides}; }
};

// Contiguous: batch, head, query, key.
template <class T>
constexpr score_view<T> score_matrix(T* data, score_shape s) noexcept {
    return {data, s, {s.heads * s.q_tokens * s.kv_tokens, s.q_tokens * s.kv_tokens, s.kv_tokens, 1}};
}

}    // namespace imbrex
