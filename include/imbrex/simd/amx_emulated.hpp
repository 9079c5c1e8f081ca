// The tile unit for bf16 without the machine: eight tiles in memory, and what LDTILECFG, TILEZERO, TILELOADD(T1), TILESTORED and
// TDPBF16PS do to them, bit for bit but for the payloads of NaNs.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS. Of each row of A and column of B the
// even products are summed from 0, and the odd ones, each step a fused multiply-add; then the two sums are added, and their sum
// is added to C. Every step rounds to nearest even; denormal inputs count as 0 and denormal results become 0.
// Held to that by tests/simd_amx_test.cpp, and to the machine's own instructions where there are some.
#pragma once

#include <cstring>
#include <string_view>

#include "imbrex/dtype.hpp"
#include "imbrex/isa.hpp"

IMBREX_ISA_BEGIN

// A tile has so many rows of so many bytes; all of a unit's tiles have both.
inline constexpr int amx_tile_rows = 16;
inline constexpr int amx_tile_row_bytes = 64;

class emulated_tiles {
public:
    static constexpr std::string_view note = ", on emulated AMX tiles",
                                      note_of_limbs = ", on emulated AMX tiles as sums of two bf16";
    static std::string_view refusal() noexcept { return {}; }

    // Of rows row_bytes apart.
    template <int T>
    void load(void const* from, index row_bytes) noexcept {
        for (int r = 0; r < amx_tile_rows; ++r) {
            std::memcpy(tiles_[T][r], static_cast<std::byte const*>(from) + r * row_bytes, amx_tile_row_bytes);
        }
    }
    template <int T>
    void load_once(void const* from, index row_bytes) noexcept {
        load<T>(from, row_bytes);
    }
    template <int T>
    void store(void* to, index row_bytes) const noexcept {
        for (int r = 0; r < amx_tile_rows; ++r) {
            std::memcpy(static_cast<std::byte*>(to) + r * row_bytes, tiles_[T][r], amx_tile_row_bytes);
        }
    }
    template <int T>
    void zero() noexcept {
        std::memset(tiles_[T], 0, sizeof tiles_[T]);
    }
    // c += a b. a: 16 rows of 32 numbers; b: 16 rows of 16 pairs, row k holds numbers 2 k and 2 k + 1 of each column; c: 16 x 16.
    template <int C, int A, int B>
    void dot_bf16() noexcept {
        for (int m = 0; m < amx_tile_rows; ++m) add_row(tiles_[C][m], tiles_[A][m], tiles_[B]);
    }

private:
    using tile_row = std::uint32_t[amx_tile_row_bytes / 4];
    static constexpr int columns = amx_tile_row_bytes / 4;

    IMBREX_NOINLINE static void add_row(tile_row& c, tile_row const& a, tile_row const (&b)[amx_tile_rows]) noexcept {
        float even[columns] = {}, odd[columns] = {};
        for (int k = 0; k < columns; ++k) {
            float const a_even = flushed(low_number(a[k])), a_odd = flushed(high_number(a[k]));
            for (int n = 0; n < columns; ++n) {
                even[n] = fused(a_even, flushed(low_number(b[k][n])), even[n]);
                odd[n] = fused(a_odd, flushed(high_number(b[k][n])), odd[n]);
            }
        }
        for (int n = 0; n < columns; ++n) {
            float const before = flushed(std::bit_cast<float>(c[n]));
            c[n] = std::bit_cast<std::uint32_t>(sum(before, sum(even[n], odd[n])));
        }
    }

    static float low_number(std::uint32_t pair) noexcept { return std::bit_cast<float>(pair << 16); }
    static float high_number(std::uint32_t pair) noexcept { return std::bit_cast<float>(pair & 0xffff0000u); }

    // A denormal as 0 of its sign.
    static float flushed(float x) noexcept {
        std::uint32_t const bits = std::bit_cast<std::uint32_t>(x);
        return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
    }
    // a b + c and a + b rounded once: a product of two bf16 has 16 bits, so that it, or a float, plus a float is a double that
    // rounds to float as the exact sum does (Figueroa 1995, When is double rounding innocuous: 53 >= 2 x 24 + 2).
    static float fused(float a, float b, float c) noexcept { return rounded(double{a} * double{b} + double{c}); }
    static float sum(float a, float b) noexcept { return rounded(double{a} + double{b}); }

    // Tiny is what is below 2^-126 once it is rounded to 24 bits: below 2^-126 - 2^-151.
    static float rounded(double x) noexcept {
        constexpr double tiny = 0x1p-126 - 0x1p-151;
        float const f = static_cast<float>(x);
        return x < tiny && x > -tiny ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) & 0x80000000u) : f;
    }

    alignas(64) tile_row tiles_[8][amx_tile_rows] = {};
};

IMBREX_ISA_END
