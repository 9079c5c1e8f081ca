// The precision of a call, told by its tensors' types; and what is no precision, refused at compile time.
#pragma once

#include "imbrex/kv/packed.hpp"
#include "imbrex/kv/paged.hpp"
#include "imbrex/kv/ring.hpp"
#include "imbrex/kv/scaled.hpp"
#include "imbrex/kv/two_part.hpp"
#include "imbrex/precision.hpp"

namespace imbrex {

// The precision that queries, kv and an output of these types have.
template <class Queries, class Kv, class O, products M = products::as_stored>
struct precision_of {
    static_assert(
        sizeof(Kv) == 0,
        "imbrex: keys and values are passed together, as dense_kv{k, v}, packed_kv{k, v, starts}, paged_kv{k, v, table, "
        "lengths}, ring_kv{k, v, lengths} or two_part_kv{prefix, suffix, lengths}, or one of them in scaled_kv");
};
enum class scales_lie { in_rows, beside_rows };
template <class Q, class K, class V, class O, products M, scales_lie Scales = scales_lie::in_rows>
struct precision_of_elements {
    static_assert(
        element<Q> && kv_stored<K> && kv_stored<V> && element<O>,
        "imbrex: tensors hold float, double, imbrex::f16, imbrex::bf16, _Float16 or std::bfloat16_t (keys and values "
        "also f8_e4m3, f8_e5m2, q8_0_block or q4_0_block); if 16-bit words are bf16 or f16, say which with as_f16(p) or "
        "as_bf16(p)");
    static_assert(Scales == scales_lie::beside_rows || (!side_scaled<K> && !side_scaled<V>),
                  "imbrex: int8 and int4 keys and values need their scales; pass scaled_kv{kv, k_scales, v_scales}");
    static_assert(Scales == scales_lie::in_rows || (!std::is_same_v<K, double> && !std::is_same_v<V, double>),
                  "imbrex: f64 keys or values do not go with scaled ones; use float");
    using type = precision<std::remove_const_t<Q>, K, V, std::remove_const_t<O>, M>;
};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, dense_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, packed_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, paged_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, ring_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, two_part_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class Kv, class O, products M>
struct precision_of<tensor_view<Q>, scaled_kv<Kv>, O, M>
    : precision_of_elements<Q, typename decltype(source_of(std::declval<Kv const&>()))::key_rows::element,
                            typename decltype(source_of(std::declval<Kv const&>()))::value_rows::element, O, M,
                            scales_lie::beside_rows> {};
template <class Q, class Kv, class O, products M>
struct precision_of<packed_queries<Q>, Kv, O, M> : precision_of<tensor_view<Q>, Kv, O, M> {};

}    // namespace imbrex
