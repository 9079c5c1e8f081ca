// Keys and values in two parts: a prefix that all sequences share, and each one's own suffix.
#pragma once

#include "imbrex/kv/dense.hpp"

namespace imbrex {

// prefix: k (1 or batch, P, kv_heads, head_dim), v (1 or batch, P, kv_heads, head_dim_v). suffix: the same with `batch` entries
// and room for the longest suffix; sequence s has lengths[s] tokens of it, at positions P to P + lengths[s] - 1. What lies beyond
// is never used. Each sequence reads the prefix for itself; where many share a long one, a call on the prefix and one on the
// suffixes, merged (merge.hpp), read it once for all: cascade attention.
template <class K, class V = K>
struct two_part_kv {
    dense_kv<K, V> prefix;
    dense_kv<K, V> suffix;
    std::span<position const> lengths;
};

template <class K, class V>
two_part_kv(dense_kv<K, V>, dense_kv<K, V>, std::span<position const>) -> two_part_kv<K, V>;

template <class K, class V>
struct two_part_source {
    using key_rows = split_rows<K>;
    using value_rows = split_rows<V>;

    dense_source<K, V> prefix;
    dense_source<K, V> suffix;
    std::span<position const> lengths;

    constexpr sequence_side sequences() const noexcept { return sequence_side{lengths, prefix.k.shape.tokens}; }
    constexpr index heads() const noexcept { return suffix.heads(); }
    constexpr index head_dim() const noexcept { return suffix.head_dim(); }
    constexpr index head_dim_v() const noexcept { return suffix.head_dim_v(); }
    constexpr bool lies_apart() const noexcept { return prefix.lies_apart() || suffix.lies_apart(); }
    constexpr kv_head<key_rows, value_rows> head(index sequence, index at) const noexcept {
        return {joined(prefix.k, suffix.k, sequence, at), joined(prefix.v, suffix.v, sequence, at)};
    }

private:
    template <class E>
    static constexpr split_rows<E> joined(tensor_view<E const> const& prefix, tensor_view<E const> const& suffix, index sequence,
                                          index head) noexcept {
        split_rows<E> r;
        if (prefix.shape.tokens > 0) r.before = rows_of(prefix, sequence, 0, head);
        if (suffix.shape.tokens > 0) r.after = rows_of(suffix, sequence, 0, head);
        r.split = prefix.shape.tokens;
        return r;
    }
};

template <class K, class V>
auto source_of(two_part_kv<K, V> const& kv) noexcept {
    return two_part_source<kv_storage_of<K>, kv_storage_of<V>>{source_of(kv.prefix), source_of(kv.suffix), kv.lengths};
}

}    // namespace imbrex
