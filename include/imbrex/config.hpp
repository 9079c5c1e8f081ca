// Version, supported platforms, attributes and the index types every layer uses.
// Nothing here depends on the instruction set; the tag for code that does is in isa.hpp.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#define IMBREX_VERSION_MAJOR 0
#define IMBREX_VERSION_MINOR 1
#define IMBREX_VERSION_PATCH 0

#if !defined(__GNUC__) && !defined(__clang__)
#error "imbrex: supported compilers are g++ 12 or newer and clang++ 14 or newer; this is neither of them"
#elif !defined(__clang__) && __GNUC__ < 12
#error "imbrex: g++ older than 12 is not supported; use g++ 12 or newer, or clang++ 14 or newer"
#elif defined(__clang__) && __clang_major__ < 14
#error "imbrex: clang++ older than 14 is not supported; use clang++ 14 or newer, or g++ 12 or newer"
#endif

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "imbrex: supported processors are x86-64 (SSE2 and up) and 64-bit Arm (NEON)"
#endif

#if !defined(__linux__) && !defined(__APPLE__) && !defined(__FreeBSD__)
#error "imbrex: supported systems are Linux, macOS and FreeBSD"
#endif

#if __cplusplus < 202002L
#error "imbrex: C++20 is needed; compile with -std=c++20 or newer"
#endif

// The kernel's contract speaks of NaN and of -inf; -ffast-math lets the compiler assume that there are none.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__)
#error                                                                                                                           \
    "imbrex: -ffast-math, -ffinite-math-only and -fassociative-math break its contract; leave them off (the kernel gains nothing)"
#endif

#define IMBREX_ALWAYS_INLINE inline __attribute__((always_inline))
#define IMBREX_NOINLINE __attribute__((noinline))

// A function that begins a cache line, so that its loops lie the same whatever stands before it: where one starts is worth 5 % of
// the speed of decode (f32, 4/1 heads, 128k keys: 5.47 -> 5.23 ms, AMD Zen 4, g++ 12, 2026-11-30).
#define IMBREX_NOINLINE_ALIGNED __attribute__((noinline, aligned(64)))

// Preconditions are checked at the boundary and reported as a status; this re-states them inside, in debug builds.
#ifndef IMBREX_ASSERT
#define IMBREX_ASSERT(condition) assert(condition)
#endif

// Unrolls the next loop fully; its trip count is a compile-time constant of at most 16.
#if defined(__clang__)
#define IMBREX_UNROLL _Pragma("clang loop unroll(full)")
#else
#define IMBREX_UNROLL _Pragma("GCC unroll 16")
#endif

namespace imbrex {

using index = std::ptrdiff_t;     // sizes, offsets and strides, in elements unless the name says bytes
using position = std::int32_t;    // a token's place in its sequence

inline constexpr index max_length = index{0x7fffffff};    // lengths of 2^31 and more are refused
inline constexpr index max_head_dim = 1024;
inline constexpr index max_workers = index{1} << 16;    // threads that one call may use

// N objects side by side. (g++ 12 warns of a sign conversion where an array's bound is an int that depends on a template.)
template <class T, int N>
using array_of = T[static_cast<std::size_t>(N)];

}    // namespace imbrex
