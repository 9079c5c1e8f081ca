// Eight-bit floating point as storage: OFP8 E4M3 ("fn": finite, with NaN) and E5M2, as keys and values are kept in by engines.
// Formats: OCP 8-bit Floating Point Specification (OFP8), revision 1.0, 2023. Integer arithmetic on bit patterns, as in
// dtype.hpp.
//
//              bias  largest  least normal  least   infinity   NaN
//   f8_e4m3       7      448      2^-6       2^-9     none     0x7f, 0xff
//   f8_e5m2      15    57344      2^-14      2^-16    0x7c     0x7d to 0x7f, and with the sign
//
// Decision: numbers beyond the largest, infinities too, are written as the largest (OFP8's saturating mode), as engines do
// with keys and values, where an outlier that turns into NaN or infinity spoils a sequence and a clamped one does not.
// NaN stays NaN, with its sign. An infinity that already stands in an E5M2 tensor is read as one.
#pragma once

#include "imbrex/dtype.hpp"

namespace imbrex {

namespace detail {

// Rounds to nearest, ties to even, once; beyond `largest`, that. All NaNs become 0x7f with their sign.
template <int FractionBits, int Bias, std::uint32_t Largest>
IMBREX_ALWAYS_INLINE constexpr std::uint8_t narrow_f8(float x) noexcept {
    constexpr int drop = 23 - FractionBits;
    constexpr int bias_gap = 127 - Bias;
    std::uint32_t const source = std::bit_cast<std::uint32_t>(x);
    std::uint32_t const magnitude = source & 0x7fffffffu;
    int const exponent = static_cast<int>(magnitude >> 23);
    std::uint32_t rounded = 0;
    if (magnitude > 0x7f800000u) {
        rounded = 0x7f;
    } else if (exponent > bias_gap) {    // normal; a carry out of the fraction steps the exponent
        rounded = std::min(shift_to_even(magnitude - (std::uint32_t{bias_gap} << 23), drop), Largest);
    } else {    // denormal: the fraction lies lower by the missing exponent
        std::uint32_t const significand = (magnitude & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
        int const shift = drop + bias_gap + 1 - std::max(exponent, 1);
        if (shift < 26) rounded = shift_to_even(significand, shift);    // else below half the least: 0
    }
    return static_cast<std::uint8_t>((source >> 24 & 0x80u) | rounded);
}

}    // namespace detail

// 1 sign, 4 exponent, 3 fraction bits. Storage, not arithmetic.
struct [[gnu::may_alias]] f8_e4m3 {
    std::uint8_t bits;

    f8_e4m3() = default;
    IMBREX_ALWAYS_INLINE constexpr explicit f8_e4m3(float x) noexcept : bits{detail::narrow_f8<3, 7, 0x7e>(x)} {}

    IMBREX_ALWAYS_INLINE static constexpr f8_e4m3 from_bits(std::uint8_t bits) noexcept {
        f8_e4m3 x{};
        x.bits = bits;
        return x;
    }

    IMBREX_ALWAYS_INLINE constexpr operator float() const noexcept {
        std::uint32_t const sign = std::uint32_t{bits} >> 7 << 31;
        std::uint32_t const magnitude = bits & 0x7fu;
        std::uint32_t widened = (magnitude << 20) + (std::uint32_t{127 - 7} << 23);
        if (magnitude == 0x7f) widened = 0x7fc00000u;
        if (magnitude < 8) widened = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f);
        return std::bit_cast<float>(sign | widened);
    }
};

// 1 sign, 5 exponent, 2 fraction bits: the upper half of a binary16.
struct [[gnu::may_alias]] f8_e5m2 {
    std::uint8_t bits;

    f8_e5m2() = default;
    IMBREX_ALWAYS_INLINE constexpr explicit f8_e5m2(float x) noexcept : bits{detail::narrow_f8<2, 15, 0x7b>(x)} {}

    IMBREX_ALWAYS_INLINE static constexpr f8_e5m2 from_bits(std::uint8_t bits) noexcept {
        f8_e5m2 x{};
        x.bits = bits;
        return x;
    }

    IMBREX_ALWAYS_INLINE constexpr operator float() const noexcept {
        return detail::widen<float, detail::f16_format>(static_cast<std::uint16_t>(bits << 8));
    }
};

// Elements of one byte that keys and values may be stored in. They are no `element`: queries and outputs are not kept in them.
// An int8 is a whole number, whose scale lies elsewhere (see encoding.hpp).
template <class T>
concept byte_element = std::same_as<T, f8_e4m3> || std::same_as<T, f8_e5m2> || std::same_as<T, std::int8_t>;

// Exact.
template <byte_element T>
IMBREX_ALWAYS_INLINE constexpr float to_float(T x) noexcept {
    return static_cast<float>(x);
}

// The value of every pattern.
template <class F8>
struct f8_values {
    float of[256] = {};
    constexpr f8_values() noexcept {
        for (int b = 0; b < 256; ++b) of[b] = to_float(F8::from_bits(static_cast<std::uint8_t>(b)));
    }
};
template <class F8>
inline constexpr f8_values<F8> f8_table{};

// to_float, for loops that have nothing but scalar code: 8-bit floats come from a table of 1 KB.
template <class T>
IMBREX_ALWAYS_INLINE constexpr float looked_up(T x) noexcept {
    if constexpr (std::same_as<T, f8_e4m3> || std::same_as<T, f8_e5m2>)
        return f8_table<T>.of[x.bits];
    else
        return to_float(x);
}

static_assert(sizeof(f8_e4m3) == 1 && std::is_trivial_v<f8_e4m3> && std::is_standard_layout_v<f8_e4m3>);
static_assert(sizeof(f8_e5m2) == 1 && std::is_trivial_v<f8_e5m2> && std::is_standard_layout_v<f8_e5m2>);

}    // namespace imbrex
