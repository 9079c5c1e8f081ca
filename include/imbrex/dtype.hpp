// Element types: what a tensor may hold, the library's own 16-bit storage types, and exact conversions between them.
// All of it is integer arithmetic on bit patterns. So results are the same under every compiler flag, and neither the
// rounding mode nor FTZ/DAZ changes them; the units' vector conversions are held to these by test.
// Formats: IEEE 754-2019 binary16 and binary32, and bfloat16, the upper half of a binary32. Held by tests/dtype_test.cpp.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <string_view>
#include <type_traits>
#if defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

#include "imbrex/config.hpp"

namespace imbrex {

namespace detail {

// The compiler's own 16-bit types; where it has none, a type that nobody can make an object of, so that no other line
// needs an #if. g++ on Arm has _Float16 in C++ since 13, but __FLT16_MAX__ earlier.
#if defined(__FLT16_MAX__) && (defined(__clang__) || __GNUC__ >= 13 || defined(__x86_64__))
__extension__ using native_f16 = _Float16;
#else
class native_f16;
#endif
#if defined(__STDCPP_BFLOAT16_T__)
using native_bf16 = std::bfloat16_t;
#else
class native_bf16;
#endif

// Sign, exponent, fraction, from the top bit down.
struct binary_format {
    int exponent_bits;
    int fraction_bits;

    constexpr int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
};
inline constexpr binary_format f16_format{5, 10};
inline constexpr binary_format bf16_format{8, 7};

template <class Wide>
struct wide_traits;
template <>
struct wide_traits<float> {
    using bits = std::uint32_t;
    static constexpr binary_format format{8, 23};
};
template <>
struct wide_traits<double> {
    using bits = std::uint64_t;
    static constexpr binary_format format{11, 52};
};

template <class T>
concept wide = std::same_as<T, float> || std::same_as<T, double>;

// x / 2^n rounded to nearest, ties to even; n >= 1.
template <std::unsigned_integral Bits>
IMBREX_ALWAYS_INLINE constexpr Bits shift_to_even(Bits x, int n) noexcept {
    Bits const odd = (x >> n) & 1;
    return (x + ((Bits{1} << (n - 1)) - 1) + odd) >> n;
}

// Rounds once, from the source's own precision: double does not pass through float, which would round twice and put
// 1 + 2^-11 + 2^-40 (just above a tie of f16) below it. A NaN keeps its sign and the top bits of its payload, quieted.
template <binary_format To, wide Wide>
IMBREX_ALWAYS_INLINE constexpr std::uint16_t narrow(Wide value) noexcept {
    using bits = typename wide_traits<Wide>::bits;
    constexpr binary_format from = wide_traits<Wide>::format;
    constexpr int drop = from.fraction_bits - To.fraction_bits;
    constexpr int bias_gap = from.bias() - To.bias();
    constexpr bits sign_bit = bits{1} << (from.exponent_bits + from.fraction_bits);
    constexpr bits implicit_bit = bits{1} << from.fraction_bits;
    constexpr bits infinity = sign_bit - implicit_bit;
    constexpr bits to_infinity = (bits{1} << 15) - (bits{1} << To.fraction_bits);
    constexpr bits to_quiet = bits{1} << (To.fraction_bits - 1);

    bits const source = std::bit_cast<bits>(value);
    bits const magnitude = source & ~sign_bit;
    bits const exponent = magnitude >> from.fraction_bits;
    bits rounded = 0;
    if (magnitude > infinity) {    // NaN
        rounded = to_infinity | to_quiet | ((magnitude & (implicit_bit - 1)) >> drop);
    } else if (exponent > bits{bias_gap}) {    // normal in To; a carry out of the fraction steps the exponent, up to infinity
        bits const rebiased = magnitude - (bits{bias_gap} << from.fraction_bits);
        rounded = std::min(shift_to_even(rebiased, drop), to_infinity);
    } else {    // denormal in To: a fixed-point number, where the fraction lies lower by the missing exponent
        bits const significand = (magnitude & (implicit_bit - 1)) | (exponent != 0 ? implicit_bit : 0);
        int const shift = drop + bias_gap + 1 - static_cast<int>(exponent != 0 ? exponent : 1);
        if (shift < from.fraction_bits + 2) rounded = shift_to_even(significand, shift);    // else below half the least: 0
    }
    bits const sign = (source & sign_bit) >> (from.exponent_bits + from.fraction_bits - 15);
    return static_cast<std::uint16_t>(sign | rounded);
}

// Exact, as every number of a narrow format is one of the wide. NaNs keep sign and payload; a signalling one stays so.
template <wide Wide, binary_format From>
IMBREX_ALWAYS_INLINE constexpr Wide widen(std::uint16_t source) noexcept {
    using bits = typename wide_traits<Wide>::bits;
    constexpr binary_format to = wide_traits<Wide>::format;
    constexpr int grow = to.fraction_bits - From.fraction_bits;
    constexpr int bias_gap = to.bias() - From.bias();
    constexpr bits implicit_bit = bits{1} << From.fraction_bits;
    constexpr bits infinity = (bits{1} << 15) - implicit_bit;

    bits const sign = bits{source} >> 15 << (to.exponent_bits + to.fraction_bits);
    bits const magnitude = source & bits{0x7fff};
    bits widened = magnitude << grow;
    if constexpr (bias_gap != 0) {    // else the exponents are the same, and so are the denormals
        constexpr bits rebias = bits{bias_gap} << to.fraction_bits;
        if (magnitude >= infinity) {
            constexpr bits to_infinity = ((bits{1} << to.exponent_bits) - 1) << to.fraction_bits;
            widened |= to_infinity;
        } else if (magnitude >= implicit_bit) {
            widened += rebias;
        } else if (magnitude != 0) {    // denormal: move its leading one to the implicit bit, which adds 1 to the exponent
            int const lift = std::countl_zero(static_cast<std::uint16_t>(magnitude)) - (15 - From.fraction_bits);
            widened = (widened << lift) + rebias - (static_cast<bits>(lift) << to.fraction_bits);
        }
    }
    return std::bit_cast<Wide>(sign | widened);
}

}    // namespace detail

// IEEE binary16. Storage, not arithmetic: it converts to float where a float is wanted, and back only when told to.
// Decision: two plain structs rather than one template over the format: their names are in every error message and
// mangled symbol. may_alias: a pointer to one may point at uint16_t, _Float16 or any other 16-bit memory (as_f16).
struct [[gnu::may_alias]] f16 {
    std::uint16_t bits;

    f16() = default;
    IMBREX_ALWAYS_INLINE constexpr explicit f16(float x) noexcept : bits{detail::narrow<detail::f16_format>(x)} {}
    IMBREX_ALWAYS_INLINE constexpr explicit f16(double x) noexcept : bits{detail::narrow<detail::f16_format>(x)} {}
    template <std::same_as<detail::native_f16> T>    // a template, so that no float converts to _Float16 on its way here
    IMBREX_ALWAYS_INLINE constexpr f16(T x) noexcept : bits{std::bit_cast<std::uint16_t>(x)} {}

    IMBREX_ALWAYS_INLINE static constexpr f16 from_bits(std::uint16_t bits) noexcept {
        f16 x{};
        x.bits = bits;
        return x;
    }

    IMBREX_ALWAYS_INLINE constexpr operator float() const noexcept { return detail::widen<float, detail::f16_format>(bits); }
    template <std::same_as<double> T>
    IMBREX_ALWAYS_INLINE constexpr explicit operator T() const noexcept {
        return detail::widen<T, detail::f16_format>(bits);
    }
    template <std::same_as<detail::native_f16> T>
    IMBREX_ALWAYS_INLINE constexpr explicit operator T() const noexcept {
        return std::bit_cast<T>(bits);
    }
};

// bfloat16, the upper half of a float. Denormals are kept, where x86's VCVTNEPS2BF16 would flush them.
struct [[gnu::may_alias]] bf16 {
    std::uint16_t bits;

    bf16() = default;
    IMBREX_ALWAYS_INLINE constexpr explicit bf16(float x) noexcept : bits{detail::narrow<detail::bf16_format>(x)} {}
    IMBREX_ALWAYS_INLINE constexpr explicit bf16(double x) noexcept : bits{detail::narrow<detail::bf16_format>(x)} {}
    template <std::same_as<detail::native_bf16> T>
    IMBREX_ALWAYS_INLINE constexpr bf16(T x) noexcept : bits{std::bit_cast<std::uint16_t>(x)} {}

    IMBREX_ALWAYS_INLINE static constexpr bf16 from_bits(std::uint16_t bits) noexcept {
        bf16 x{};
        x.bits = bits;
        return x;
    }

    IMBREX_ALWAYS_INLINE constexpr operator float() const noexcept { return detail::widen<float, detail::bf16_format>(bits); }
    template <std::same_as<double> T>
    IMBREX_ALWAYS_INLINE constexpr explicit operator T() const noexcept {
        return detail::widen<T, detail::bf16_format>(bits);
    }
    template <std::same_as<detail::native_bf16> T>
    IMBREX_ALWAYS_INLINE constexpr explicit operator T() const noexcept {
        return std::bit_cast<T>(bits);
    }
};

namespace detail {

template <class T>
struct storage {};
template <>
struct storage<float> {
    using type = float;
};
template <>
struct storage<double> {
    using type = double;
};
template <>
struct storage<f16> {
    using type = f16;
};
template <>
struct storage<bf16> {
    using type = bf16;
};
template <>
struct storage<native_f16> {
    using type = f16;
};
template <>
struct storage<native_bf16> {
    using type = bf16;
};

}    // namespace detail

// The library's own type for a tensor's element type, of the same size and bits: float, double, f16 or bf16.
template <class T>
using storage_of = typename detail::storage<std::remove_const_t<T>>::type;

// What a tensor may hold, const or not. std::uint16_t is not one of them, as it may be either: see as_f16 and as_bf16.
template <class T>
concept element = requires {
    typename storage_of<T>;
};

template <element T>
IMBREX_ALWAYS_INLINE constexpr std::string_view dtype_name() noexcept {
    using storage = storage_of<T>;
    if constexpr (std::same_as<storage, float>)
        return "f32";
    else if constexpr (std::same_as<storage, double>)
        return "f64";
    else if constexpr (std::same_as<storage, f16>)
        return "f16";
    else
        return "bf16";
}

// Exact, but for a double, which rounds as the language does (the rounding mode applies).
template <element T>
IMBREX_ALWAYS_INLINE constexpr float to_float(T x) noexcept {
    return static_cast<float>(std::bit_cast<storage_of<T>>(x));
}

// Exact.
template <element T>
IMBREX_ALWAYS_INLINE constexpr double to_double(T x) noexcept {
    return static_cast<double>(std::bit_cast<storage_of<T>>(x));
}

// Rounds once, to nearest, ties to even (a double to float as the language does).
template <element T, detail::wide Wide>
IMBREX_ALWAYS_INLINE constexpr T round_to(Wide x) noexcept {
    return std::bit_cast<T>(static_cast<storage_of<T>>(x));
}

// The same memory, seen as the library's storage type. Reading and writing through the result is defined by g++ and
// clang++ whatever the memory was declared as, since f16 and bf16 may alias. Strict ISO C++ has no such rule before
// std::start_lifetime_as (C++23), so this is a promise of the supported compilers, kept under -fstrict-aliasing by test.
template <element T>
IMBREX_ALWAYS_INLINE auto as_storage(T* data) noexcept {
    if constexpr (std::is_const_v<T>)
        return reinterpret_cast<storage_of<T> const*>(data);
    else
        return reinterpret_cast<storage_of<T>*>(data);
}

// Raw 16-bit words, as tensors of other libraries are often kept: the caller says which format they are in.
IMBREX_ALWAYS_INLINE f16* as_f16(std::uint16_t* words) noexcept { return reinterpret_cast<f16*>(words); }
IMBREX_ALWAYS_INLINE f16 const* as_f16(std::uint16_t const* words) noexcept { return reinterpret_cast<f16 const*>(words); }
IMBREX_ALWAYS_INLINE bf16* as_bf16(std::uint16_t* words) noexcept { return reinterpret_cast<bf16*>(words); }
IMBREX_ALWAYS_INLINE bf16 const* as_bf16(std::uint16_t const* words) noexcept { return reinterpret_cast<bf16 const*>(words); }

static_assert(sizeof(f16) == 2 && alignof(f16) == 2 && std::is_trivial_v<f16> && std::is_standard_layout_v<f16>);
static_assert(sizeof(bf16) == 2 && alignof(bf16) == 2 && std::is_trivial_v<bf16> && std::is_standard_layout_v<bf16>);

}    // namespace imbrex
