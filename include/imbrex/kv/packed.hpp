// Keys and values of sequences packed one after another in two tensors of the caller's.
#pragma once

#include "imbrex/kv/dense.hpp"

namespace imbrex {

// k (1, total tokens, kv_heads, head_dim), v (1, total tokens, kv_heads, head_dim_v). Sequence s has the tokens
// [starts[s], starts[s + 1]): cu_seqlens, one entry more than there are sequences. Sequences may be empty; tokens before the
// first and after the last are never used.
template <class K, class V = K>
struct packed_kv {
    tensor_view<K const> k;
    tensor_view<V const> v;
    std::span<position const> starts;
};

template <class K, class V>
packed_kv(tensor_view<K>, tensor_view<V>, std::span<position const>) -> packed_kv<std::remove_const_t<K>, std::remove_const_t<V>>;

template <class K, class V>
auto source_of(packed_kv<K, V> const& kv) noexcept {
    return dense_source<kv_storage_of<K>, kv_storage_of<V>>{storage_view(kv.k), storage_view(kv.v), kv.starts};
}

}    // namespace imbrex
