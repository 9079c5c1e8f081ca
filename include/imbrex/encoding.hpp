// How rows of keys and values may be encoded: the types they are stored in, and the exact meaning of each number in a row.
//
//   type                    bytes a number   value d of a row
//   float f16 bf16          4 2              row[d]
//   f8_e4m3 f8_e5m2         1                row[d]
//   std::int8_t             1                row[d] * scale(d)
//   int4_pair               1/2              nibble(row[d / 2], d % 2) * scale(d)
//   q8_0_block              34/32            b.qs[i] * b.d             where b = row[d / 32], i = d % 32
//   q4_0_block              18/32            (nibble - 8) * b.d        low nibble of b.qs[i] for i < 16, else high of b.qs[i -
//   16]
//
// Scales of int8 and int4 lie beside the rows, see side_scales. Blocks carry their own: their layout is ggml's, bit for bit
// (ggml-common.h: block_q8_0, block_q4_0), so that caches of engines built on it are read as they are.
// Held by tests/encoding_test.cpp; the units' vector conversions by tests/simd_encoded_test.cpp.
#pragma once

#include "imbrex/dtype_f8.hpp"

namespace imbrex {

inline constexpr index ggml_block = 32;    // numbers that share a scale in a q8_0 or q4_0 block

struct [[gnu::may_alias]] q8_0_block {
    f16 d;
    std::int8_t qs[ggml_block];
};

struct [[gnu::may_alias]] q4_0_block {
    f16 d;
    std::uint8_t qs[ggml_block / 2];
};

// Numbers 2 i (low nibble) and 2 i + 1 (high) of a row; a nibble n stands for n - 8.
// Decision: neighbours share a byte, so that a row of any even length and any group is one array; offset 8 rather than two's
// complement, so that nibbles are q4_0's: the unsigned operand of integer dot products, and the index of a table of 16.
struct [[gnu::may_alias]] int4_pair {
    std::uint8_t bits;
};

static_assert(sizeof(q8_0_block) == 34 && alignof(q8_0_block) == 2 && std::is_trivial_v<q8_0_block>);
static_assert(sizeof(q4_0_block) == 18 && alignof(q4_0_block) == 2 && std::is_trivial_v<q4_0_block>);
static_assert(sizeof(int4_pair) == 1);

// Carries its own scales.
template <class E>
concept block_encoded = std::same_as<E, q8_0_block> || std::same_as<E, q4_0_block>;

// Whole numbers, whose scales lie beside them.
template <class E>
concept side_scaled = std::same_as<E, std::int8_t> || std::same_as<E, int4_pair>;

// What a row of keys or values may consist of.
template <class E>
concept kv_element = (element<E> && std::same_as<E, storage_of<E>>) || byte_element<E> || block_encoded<E> || side_scaled<E>;

namespace detail {

template <class T>
struct kv_storage {};
template <element T>
struct kv_storage<T> : storage<T> {};
template <kv_element T>
    requires(!element<T>)
struct kv_storage<T> {
    using type = T;
};

}    // namespace detail

// storage_of, for whatever keys and values may be: _Float16 is f16, q8_0_block is itself.
template <class T>
using kv_storage_of = typename detail::kv_storage<std::remove_const_t<T>>::type;

// What a tensor of keys or values may hold, const or not.
template <class T>
concept kv_stored = requires {
    typename kv_storage_of<T>;
};

// Numbers in one E.
template <kv_element E>
inline constexpr index values_per_unit = 1;
template <>
inline constexpr index values_per_unit<q8_0_block> = ggml_block;
template <>
inline constexpr index values_per_unit<q4_0_block> = ggml_block;
template <>
inline constexpr index values_per_unit<int4_pair> = 2;

// Rows of int4 have a multiple of so many numbers: the longest vector.
inline constexpr index int4_at_once = 16;

// E's in a row of n numbers, n being a multiple of values_per_unit<E>. Sizes and strides of tensor_view<E> count E's.
template <kv_element E>
constexpr index row_units(index n) noexcept {
    return n / values_per_unit<E>;
}
template <kv_element E>
constexpr index row_bytes(index n) noexcept {
    return row_units<E>(n) * static_cast<index>(sizeof(E));
}

// Bytes that a number takes, scales of blocks left out; two numbers in one byte count as one each.
template <kv_element E>
inline constexpr index bytes_per_value = std::max<index>(1, static_cast<index>(sizeof(E)) / values_per_unit<E>);

template <kv_element E>
constexpr std::string_view encoding_name() noexcept {
    if constexpr (element<E>)
        return dtype_name<E>();
    else if constexpr (std::same_as<E, f8_e4m3>)
        return "f8_e4m3";
    else if constexpr (std::same_as<E, f8_e5m2>)
        return "f8_e5m2";
    else if constexpr (std::same_as<E, std::int8_t>)
        return "int8";
    else if constexpr (std::same_as<E, int4_pair>)
        return "int4";
    else if constexpr (std::same_as<E, q8_0_block>)
        return "q8_0";
    else
        return "q4_0";
}

// The scales of one row of int8 or int4: number d is scaled by data[d / group]. A group as long as the row is one scale for
// all of it; a group of 1 is a scale for each channel, which rows may share. Groups of whole vectors (32, 64, 128) are fast.
struct side_scales {
    float const* data = nullptr;
    index group = 1;

    constexpr float of(index d) const noexcept { return data[d / group]; }
};

// The whole number that stands at d, not yet scaled.
IMBREX_ALWAYS_INLINE constexpr int code_at(std::int8_t const* row, index d) noexcept { return row[d]; }
IMBREX_ALWAYS_INLINE constexpr int code_at(int4_pair const* row, index d) noexcept {
    return static_cast<int>((d % 2 == 0 ? row[d / 2].bits : row[d / 2].bits >> 4) & 0xf) - 8;
}
IMBREX_ALWAYS_INLINE constexpr int code_at(q8_0_block const* row, index d) noexcept { return row[d / 32].qs[d % 32]; }
IMBREX_ALWAYS_INLINE constexpr int code_at(q4_0_block const* row, index d) noexcept {
    std::uint8_t const pair = row[d / 32].qs[d % 16];
    return static_cast<int>((d % 32 < 16 ? pair : pair >> 4) & 0xf) - 8;
}

// Number d of a row: the definition. One rounding at most (int8 and int4 by a scale of many bits; blocks' products are exact).
template <kv_element E>
    requires(!side_scaled<E>)
IMBREX_ALWAYS_INLINE constexpr float value_at(E const* row, index d) noexcept {
    if constexpr (block_encoded<E>)
        return static_cast<float>(code_at(row, d)) * to_float(row[d / ggml_block].d);
    else
        return to_float(row[d]);
}
template <side_scaled E>
IMBREX_ALWAYS_INLINE constexpr float value_at(E const* row, side_scales scales, index d) noexcept {
    return static_cast<float>(code_at(row, d)) * scales.of(d);
}

}    // namespace imbrex
