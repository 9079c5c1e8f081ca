// int8 and int4 keys and values, whose scales lie in tensors of their own, in any of the places that kv/ knows.
#pragma once

#include <algorithm>

#include "imbrex/kv/packed.hpp"
#include "imbrex/kv/paged.hpp"
#include "imbrex/kv/ring.hpp"
#include "imbrex/kv/two_part.hpp"

namespace imbrex {

// kv: dense_kv, packed_kv, paged_kv, ring_kv or two_part_kv over std::int8_t or int4_pair (head_dim a multiple of 16; the last
// axis counts pairs), of whose keys and values one may be of another encoding, without scales. Scales have the axes of the
// elements (batch or page, token or slot, kv_heads) and a last one of groups, a divisor of head_dim: 1 is a scale for each token
// and head, head_dim / g one for each g numbers, head_dim one for each channel. An axis of size 1 serves all: (1, 1, kv_heads,
// head_dim) are scales of channels. A number is its integer times its scale. The scales of slots that are not used are not used
// either. prefix_k_scales, prefix_v_scales: two_part_kv's, in groups like the suffix's; else none.
//
// int8 keys and values with one scale a row each are, where the processor has VNNI, multiplied as they lie for few query rows, by
// queries and weights rounded to 16 bits (units/narrow_integer.hpp: 5e-5 of the largest output); so are, for 3 rows to 8 of a kv
// head, keys and values of int8 and int4 with groups of multiples of 32; path_of tells.
template <class Kv>
struct scaled_kv {
    Kv kv;
    tensor_view<float const> k_scales{};
    tensor_view<float const> v_scales{};
    tensor_view<float const> prefix_k_scales{};
    tensor_view<float const> prefix_v_scales{};
};

struct no_kv {};

template <class Kv, class... Scales>
scaled_kv(Kv, Scales...) -> scaled_kv<Kv>;

// Scales as rows in the places where rows of the elements are: a source like theirs.
namespace scale_rows_of {

// Of elements of this shape. Without scales: rows that nobody reads.
inline tensor_view<float const> beside(tensor_view<float const> s, shape4 const& rows) noexcept {
    if (s.data == nullptr || s.shape.batch == 1) s.strides.batch = 0;
    if (s.data == nullptr || s.shape.tokens == 1) s.strides.token = 0;
    if (s.data == nullptr || s.shape.heads == 1) s.strides.head = 0;
    return {s.data, {rows.batch, rows.tokens, rows.heads, std::max<index>(1, s.shape.head_dim)}, s.strides};
}

template <class K, class V>
dense_source<float, float> source(dense_source<K, V> const& s, tensor_view<float const> k, tensor_view<float const> v) noexcept {
    return {beside(k, s.k.shape), beside(v, s.v.shape), s.starts};
}
template <class K, class V, class Kv>
dense_source<float, float> of(dense_source<K, V> const& s, Kv const& x) noexcept {
    return source(s, x.k_scales, x.v_scales);
}
template <class K, class V, class Kv>
paged_source<float, float> of(paged_source<K, V> const& s, Kv const& x) noexcept {
    return {beside(x.k_scales, s.k.shape), beside(x.v_scales, s.v.shape), s.table, s.lengths, s.page_size};
}
template <class K, class V, class Kv>
ring_source<float, float> of(ring_source<K, V> const& s, Kv const& x) noexcept {
    return {beside(x.k_scales, s.k.shape), beside(x.v_scales, s.v.shape), s.lengths};
}
template <class K, class V, class Kv>
two_part_source<float, float> of(two_part_source<K, V> const& s, Kv const& x) noexcept {
    return {source(s.prefix, x.prefix_k_scales, x.prefix_v_scales), source(s.suffix, x.k_scales, x.v_scales), s.lengths};
}

}    // namespace scale_rows_of

template <kv_source Codes, kv_source Scales>
struct scaled_source {
    using key_rows = rows_with_scales<typename Codes::key_rows, typename Scales::key_rows>;
    using value_rows = rows_with_scales<typename Codes::value_rows, typename Scales::value_rows>;

    Codes codes;
    Scales scales;
    scaled_kv<no_kv> given;    // the caller's views of scales, to be checked

    constexpr sequence_side sequences() const noexcept { return codes.sequences(); }
    constexpr index heads() const noexcept { return codes.heads(); }
    constexpr index head_dim() const noexcept { return codes.head_dim(); }
    constexpr index head_dim_v() const noexcept { return codes.head_dim_v(); }
    constexpr bool lies_apart() const noexcept { return codes.lies_apart(); }
    constexpr bool has_one_scale_a_row() const noexcept { return scales.head_dim() == 1 && scales.head_dim_v() == 1; }
    constexpr kv_head<key_rows, value_rows> head(index sequence, index at) const noexcept {
        auto const x = codes.head(sequence, at);
        auto const s = scales.head(sequence, at);
        return {with_scales(x.keys, s.keys, head_dim() / scales.head_dim()),
                with_scales(x.values, s.values, head_dim_v() / scales.head_dim_v()), x.held_from};
    }
};

template <class Kv>
auto source_of(scaled_kv<Kv> const& kv) noexcept {
    auto const codes = source_of(kv.kv);
    auto const scales = scale_rows_of::of(codes, kv);
    return scaled_source<std::remove_const_t<decltype(codes)>, std::remove_const_t<decltype(scales)>>{
        codes, scales, {{}, kv.k_scales, kv.v_scales, kv.prefix_k_scales, kv.prefix_v_scales}};
}

}    // namespace imbrex
