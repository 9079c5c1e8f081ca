// Keys and values in two dense tensors of the caller's.
#pragma once

#include "imbrex/dtype.hpp"
#include "imbrex/rows.hpp"
#include "imbrex/view.hpp"

namespace imbrex {

// k (batch, Sk, kv_heads, head_dim), v (batch, Sk, kv_heads, head_dim_v). A batch of 1 is shared by every sequence of the query.
template <class K, class V = K>
struct dense_kv {
    tensor_view<K const> k;
    tensor_view<V const> v;
};

template <class K, class V>
dense_kv(tensor_view<K>, tensor_view<V>) -> dense_kv<std::remove_const_t<K>, std::remove_const_t<V>>;

// One kv head of it, as the loop reads it.
template <class K, class V>
struct dense_head {
    rows<K> keys;
    rows<V> values;

    constexpr kv_tile<K, V> tile(index kv_begin, index) const noexcept { return {keys.from(kv_begin), values.from(kv_begin)}; }
};

}    // namespace imbrex
