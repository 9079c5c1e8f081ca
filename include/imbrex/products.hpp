// The arithmetic that a precision policy chooses.
#pragma once

#include <concepts>
#include <string_view>

namespace imbrex {

// What products of queries and keys, and of weights and values, are computed by.
enum class products {
    as_stored,    // the processor's dot products of what is stored, where it has them: bf16 in pairs (weights rounded to bf16,
                  // sums f32), f16 on tiles as sums of two bf16 (weights too: 16 digits, sums f32), codes of int8 with a scale a
                  // row and of q8_0, q4_0, int8 and int4 with scales for whole 32s (queries and weights in two bytes: 5e-5 of the
                  // largest output); else widened
    widened,      // f32 arithmetic on numbers widened in registers, whatever the processor has
    eight_bit,    // as as_stored, with queries of codes, and weights of int8 with a scale a row, in one byte: faster; 1e-2 of
                  // the largest output
};

// What a plan has the wide unit (prefill) compute its products by.
enum class wide_kind {
    widened,           // f32 (or f64) arithmetic on numbers widened in registers
    bf16_pairs,        // dot products of pairs of bf16
    amx_tiles,         // tiles of them
    amx_limb_tiles,    // tiles of f16 as sums of two bf16
};

constexpr std::string_view name_of(products p) noexcept {
    constexpr std::string_view names[] = {"as_stored", "widened", "eight_bit"};
    return names[static_cast<int>(p)];
}

// Those of a precision policy; one of the caller's own need not say.
template <class P>
inline constexpr products products_of = products::as_stored;
template <class P>
    requires requires {
        { P::by } -> std::convertible_to<products>;
    }
inline constexpr products products_of<P> = P::by;

}    // namespace imbrex
