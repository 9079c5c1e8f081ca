// Masks given as a tensor: a bool, a byte or a bit per score.
//
// Traffic: classify reads the tile's entries once, a vector of bytes at a time (64 x 256 keys: 16 KB, or 2 KB of bits), and stops
// at the first row that shows the tile to be partial; keep reads single entries, in partial tiles only.
#pragma once

#include <concepts>
#include <cstring>

#include "imbrex/rules/operands.hpp"
#include "imbrex/rules/score_rows.hpp"
#include "imbrex/simd/elementwise.hpp"

IMBREX_ISA_BEGIN

// Of n bytes side by side: a byte that is not 0 is seen.
inline seen_so_far scan_bytes(void const* bytes, index n) noexcept {
    using V = lanes<std::uint8_t>;
    constexpr index W = static_cast<index>(V::size);
    auto const* const p = static_cast<unsigned char const*>(bytes);
    index i = 0;
    V any(std::uint8_t(0));
    auto hidden = any != any;
    for (; i + W <= n; i += W) {
        V const x = V::load_unaligned(p + i);
        any = any | x;
        hidden = hidden | (x == V(std::uint8_t(0)));
    }
    seen_so_far seen{i > 0 && xsimd::any(any != V(std::uint8_t(0))), i == 0 || !xsimd::any(hidden)};
    constexpr std::uint64_t low_bits = 0x0101010101010101;
    for (; i + 8 <= n; i += 8) {
        std::uint64_t word;
        std::memcpy(&word, p + i, 8);
        seen.add({word != 0, ((word - low_bits) & ~word & (low_bits << 7)) == 0});
    }
    for (; i < n; ++i) seen.add({p[i] != 0, p[i] != 0});
    return seen;
}

// Of bits [begin, end) of a row, the lowest bit of a byte first.
inline seen_so_far scan_bits(std::uint8_t const* row, index begin, index end) noexcept {
    seen_so_far seen;
    for (index i = begin; i < end;) {
        index const byte = i / 8, shift = i % 8;
        if (shift == 0 && i + 64 <= end) {
            std::uint64_t word;
            std::memcpy(&word, row + byte, 8);
            seen.add({word != 0, ~word == 0});
            i += 64;
            continue;
        }
        index const count = std::min(8 - shift, end - i);
        unsigned const wanted = ((1u << count) - 1u) << shift, bits = row[byte] & wanted;
        seen.add({bits != 0, bits == wanted});
        i += count;
    }
    return seen;
}

IMBREX_ISA_END

namespace imbrex {

// Query i of sequence b sees key j in head h when the tensor's (b, h, i, j) is not 0. Queries are counted from the first of the
// call. Each axis is as long as the call's, or 1 and then serves all: (1, 1, Sq, Sk), (B, 1, 1, Sk), (B, 1, Sq, 1), ...
template <class T>
struct mask_tensor {
    static_assert(
        std::same_as<std::remove_const_t<T>, bool> || std::same_as<std::remove_const_t<T>, std::uint8_t>,
        "imbrex: a mask tensor holds bool or std::uint8_t, 0 where a query may not see a key; other numbers are a bias");
    score_view<T const> entries;

    constexpr mask_tensor(score_view<T const> view) noexcept : entries{view} {}

    template <class Ctx, class Q, class K>
    constexpr auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        index const offset = ctx.query_offset(), last = index{ctx.kv_len} - 1;
        return lanewise_mask(
            [&](auto i, auto j, auto h) noexcept {
                return entries.at(ctx.batch, h, i - offset, std::min<index>(j, last)) != T(0);
            },
            q, kv, ctx.head());
    }
    template <class Isa = isa_tag>    // what it does depends on the instruction set
    coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        score_shape const& shape = entries.shape;
        bool const one_row = shape.q_tokens == 1, one_key = shape.kv_tokens == 1;
        index const offset = ctx.query_offset(), keys = one_key ? 1 : w.kv_end - w.kv_begin;
        return classify_rows(ctx, shape.heads, one_row ? 0 : w.q_first - offset, one_row ? 0 : w.q_last - offset,
                             [&](index h, index row) noexcept {
                                 T const* const first = &entries.at(ctx.batch, h, row, w.kv_begin);
                                 if (keys == 1 || entries.strides.key == 1) return scan_bytes(first, keys);
                                 seen_so_far seen;
                                 for (index j = 0; j < keys && !seen.mixed(); ++j) {
                                     bool const one = first[j * entries.strides.key] != T(0);
                                     seen.add({one, one});
                                 }
                                 return seen;
                             });
    }
    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_matrix(rule_operand::mask_tensor, entries.data, entries.shape, call);
    }
};
template <class T>
mask_tensor(score_view<T>) -> mask_tensor<std::remove_const_t<T>>;

// The same with a bit per score, the lowest of each byte first: key j of a row is bit j % 8 of its byte j / 8.
//   strides  in bytes; the key's is not used
struct bit_mask {
    std::uint8_t const* bits = nullptr;
    score_shape shape{};
    score_strides strides{};

    template <class Ctx, class Q, class K>
    constexpr auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        index const offset = ctx.query_offset(), last = shape.kv_tokens - 1;
        return lanewise_mask(
            [&](auto i, auto j, auto h) noexcept {
                index const bit = std::min<index>(j, last);
                return (row(ctx.batch, h, i - offset)[bit / 8] >> (bit % 8) & 1) != 0;
            },
            q, kv, ctx.head());
    }
    template <class Isa = isa_tag>    // what it does depends on the instruction set
    coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        bool const one_row = shape.q_tokens == 1, one_key = shape.kv_tokens == 1;
        index const offset = ctx.query_offset(), begin = one_key ? 0 : w.kv_begin, end = one_key ? 1 : w.kv_end;
        return classify_rows(ctx, shape.heads, one_row ? 0 : w.q_first - offset, one_row ? 0 : w.q_last - offset,
                             [&](index h, index q) noexcept { return scan_bits(row(ctx.batch, h, q), begin, end); });
    }
    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_matrix(rule_operand::mask_tensor, bits, shape, call);
    }

private:
    constexpr std::uint8_t const* row(index b, index h, index q) const noexcept {
        return bits + ((shape.batch == 1 ? 0 : b * strides.batch) + (shape.heads == 1 ? 0 : h * strides.head) +
                       (shape.q_tokens == 1 ? 0 : q * strides.query));
    }
};

// Contiguous rows, each of a whole number of bytes.
constexpr bit_mask packed_bits(std::uint8_t const* bits, score_shape s) noexcept {
    index const row = (s.kv_tokens + 7) / 8;
    return {bits, s, {s.heads * s.q_tokens * row, s.q_tokens * row, row, 0}};
}

}    // namespace imbrex
