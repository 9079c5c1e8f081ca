// Keys and values of the last tokens of each sequence, in a ring of slots.
#pragma once

#include <algorithm>

#include "imbrex/kv/source.hpp"

namespace imbrex {

// k (batch, capacity, kv_heads, head_dim), v (batch, capacity, kv_heads, head_dim_v). Sequence s has had lengths[s] tokens; the
// token at position p lies in slot p % capacity, where it has replaced the one before. Rules see the positions, so a window needs
// no change. The last `capacity` tokens are there; earlier ones are seen by no query, whatever the rule. Write new tokens before
// the call: with q new tokens, of a window of w keys, the ring needs q + w - 1 slots.
template <class K, class V = K>
struct ring_kv {
    tensor_view<K const> k;
    tensor_view<V const> v;
    std::span<position const> lengths;
};

template <class K, class V>
ring_kv(tensor_view<K>, tensor_view<V>, std::span<position const>) -> ring_kv<std::remove_const_t<K>, std::remove_const_t<V>>;

template <class K, class V>
struct ring_source {
    using key_rows = split_rows<K>;
    using value_rows = split_rows<V>;

    tensor_view<K const> k;
    tensor_view<V const> v;
    std::span<position const> lengths;

    constexpr sequence_side sequences() const noexcept { return sequence_side{lengths}.last(k.shape.tokens); }
    constexpr index heads() const noexcept { return k.shape.heads; }
    constexpr index head_dim() const noexcept { return k.shape.head_dim * values_per_unit<K>; }
    constexpr index head_dim_v() const noexcept { return v.shape.head_dim * values_per_unit<V>; }
    constexpr bool lies_apart() const noexcept { return tokens_lie_apart(k) || tokens_lie_apart(v); }
    constexpr kv_head<key_rows, value_rows> head(index sequence, index at) const noexcept {
        index const length = sequences().of(sequence).count, capacity = k.shape.tokens;
        if (length == 0) return {};
        return {ring_of(k, sequence, at, length), ring_of(v, sequence, at, length),
                static_cast<position>(std::max<index>(0, length - capacity))};
    }

private:
    // The last round of the ring begins at the position that lies in slot 0.
    template <class E>
    static constexpr split_rows<E> ring_of(tensor_view<E const> const& t, index sequence, index head, index length) noexcept {
        index const capacity = t.shape.tokens, round = (length - 1) / capacity * capacity;
        rows<E> const slots = rows_of(t, sequence, 0, head);
        return {slots, slots, round - capacity, round};
    }
};

template <class K, class V>
auto source_of(ring_kv<K, V> const& kv) noexcept {
    return ring_source<kv_storage_of<K>, kv_storage_of<V>>{storage_view(kv.k), storage_view(kv.v), kv.lengths};
}

}    // namespace imbrex
