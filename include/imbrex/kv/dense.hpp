// Keys and values in two dense tensors of the caller's.
#pragma once

#include "imbrex/kv/source.hpp"

namespace imbrex {

// k (batch, Sk, kv_heads, head_dim), v (batch, Sk, kv_heads, head_dim_v). Elements are any of encoding.hpp that need no scales
// beside them, of keys others than of values if so wished; of blocks, the last axis counts blocks. A batch of 1 is shared by
// every sequence of the query.
template <class K, class V = K>
struct dense_kv {
    tensor_view<K const> k;
    tensor_view<V const> v;
};

template <class K, class V>
dense_kv(tensor_view<K>, tensor_view<V>) -> dense_kv<std::remove_const_t<K>, std::remove_const_t<V>>;

// Dense keys and values, packed ones too.
template <class K, class V>
struct dense_source {
    using key_rows = rows<K>;
    using value_rows = rows<V>;

    tensor_view<K const> k;
    tensor_view<V const> v;
    packed_starts starts{};

    constexpr sequence_side sequences() const noexcept { return {k.shape, starts}; }
    constexpr index heads() const noexcept { return k.shape.heads; }
    constexpr index head_dim() const noexcept { return k.shape.head_dim * values_per_unit<K>; }
    constexpr index head_dim_v() const noexcept { return v.shape.head_dim * values_per_unit<V>; }
    constexpr bool lies_apart() const noexcept { return tokens_lie_apart(k) || tokens_lie_apart(v); }
    constexpr kv_head<key_rows, value_rows> head(index sequence, index at) const noexcept {
        token_run const tokens = sequences().of(sequence);
        if (tokens.count == 0) return {};
        return {rows_of(k, sequence, tokens.first, at), rows_of(v, sequence, tokens.first, at)};
    }
};

template <class K, class V>
auto source_of(dense_kv<K, V> const& kv) noexcept {
    return dense_source<kv_storage_of<K>, kv_storage_of<V>>{storage_view(kv.k), storage_view(kv.v)};
}

}    // namespace imbrex
