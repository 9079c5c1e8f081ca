// What one core of this machine can do at most: multiply-adds in the widest vectors of the instruction set that this file is
// compiled for, and reads from memory. Each function does a known amount of work and leaves the clock to alternate.hpp, so that
// the limits are measured right before and right after the code they are compared with.
#pragma once

#include <cstddef>
#include <cstdint>

#include <benchmark/benchmark.h>

#include <imbrex/imbrex.hpp>

#include <xsimd/xsimd.hpp>

namespace imbrex_bench {

using imbrex::index;

// ---- f32 multiply-adds ----
// Independent chains a <- x a + y of one vector each. They tend to 1: no denormals, no overflow. Twelve chains hide a latency of
// 4 cycles at 3 a cycle; Arm's wide cores have 4 pipes, and registers for 24.
#if defined(__aarch64__)
inline constexpr int fma_chains = 24;
#else
inline constexpr int fma_chains = 12;
#endif

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))

#if defined(__AVX512F__)
using fma_vector = __m512;
inline fma_vector fma_splat(float x) { return _mm512_set1_ps(x); }
#else
using fma_vector = __m256;
inline fma_vector fma_splat(float x) { return _mm256_set1_ps(x); }
#endif

// The whole loop in assembly, so that no compiler folds, reorders or spills anything in it.
IMBREX_NOINLINE inline void run_fmas(index rounds) {    // rounds >= 1
    fma_vector a[fma_chains];
    for (int i = 0; i < fma_chains; ++i) a[i] = fma_splat(0.5f + static_cast<float>(i));
    asm volatile(
        "1:\n\t"
        "vfmadd213ps %[y], %[x], %0\n\tvfmadd213ps %[y], %[x], %1\n\tvfmadd213ps %[y], %[x], %2\n\t"
        "vfmadd213ps %[y], %[x], %3\n\tvfmadd213ps %[y], %[x], %4\n\tvfmadd213ps %[y], %[x], %5\n\t"
        "vfmadd213ps %[y], %[x], %6\n\tvfmadd213ps %[y], %[x], %7\n\tvfmadd213ps %[y], %[x], %8\n\t"
        "vfmadd213ps %[y], %[x], %9\n\tvfmadd213ps %[y], %[x], %10\n\tvfmadd213ps %[y], %[x], %11\n\t"
        "dec %[n]\n\t"
        "jnz 1b"
        : "+v"(a[0]), "+v"(a[1]), "+v"(a[2]), "+v"(a[3]), "+v"(a[4]), "+v"(a[5]), "+v"(a[6]), "+v"(a[7]), "+v"(a[8]), "+v"(a[9]),
          "+v"(a[10]), "+v"(a[11]), [n] "+r"(rounds)
        : [x] "v"(fma_splat(0.999f)), [y] "v"(fma_splat(0.001f))
        : "cc");
}

#else

using fma_vector = xsimd::batch<float>;

// Through the library's seam; without an FMA instruction this is a multiply and an add. The empty asm gives every chain a
// register that the compiler knows nothing about.
IMBREX_NOINLINE inline void run_fmas(index rounds) {
    fma_vector a[fma_chains];
#pragma GCC unroll 24
    for (int i = 0; i < fma_chains; ++i) a[i] = fma_vector(0.5f + static_cast<float>(i));
    fma_vector const x(0.999f), y(0.001f);
    for (; rounds > 0; --rounds) {
#pragma GCC unroll 24
        for (int i = 0; i < fma_chains; ++i) {
            fma_vector next = imbrex::seam<float>::fma(x, a[i], y);
#if defined(__aarch64__)
            asm volatile("" : "+w"(next.data));
#else
            asm volatile("" : "+x"(next.data));
#endif
            a[i] = next;
        }
    }
}

#endif

// ---- dot products of pairs of bf16 ----
#if defined(__AVX512BF16__)

// As run_fmas: two multiply-adds a lane.
IMBREX_NOINLINE inline void run_pair_products(index rounds) {    // rounds >= 1
    __m512 a[fma_chains];
    for (int i = 0; i < fma_chains; ++i) a[i] = fma_splat(0.5f + static_cast<float>(i));
    __m512i const tenth = _mm512_set1_epi32(0x3dcd3dcd);
    asm volatile(
        "1:\n\t"
        "vdpbf16ps %[x], %[x], %0\n\tvdpbf16ps %[x], %[x], %1\n\tvdpbf16ps %[x], %[x], %2\n\t"
        "vdpbf16ps %[x], %[x], %3\n\tvdpbf16ps %[x], %[x], %4\n\tvdpbf16ps %[x], %[x], %5\n\t"
        "vdpbf16ps %[x], %[x], %6\n\tvdpbf16ps %[x], %[x], %7\n\tvdpbf16ps %[x], %[x], %8\n\t"
        "vdpbf16ps %[x], %[x], %9\n\tvdpbf16ps %[x], %[x], %10\n\tvdpbf16ps %[x], %[x], %11\n\t"
        "dec %[n]\n\t"
        "jnz 1b"
        : "+v"(a[0]), "+v"(a[1]), "+v"(a[2]), "+v"(a[3]), "+v"(a[4]), "+v"(a[5]), "+v"(a[6]), "+v"(a[7]), "+v"(a[8]), "+v"(a[9]),
          "+v"(a[10]), "+v"(a[11]), [n] "+r"(rounds)
        : [x] "v"(tenth)
        : "cc");
}

#else

inline void run_pair_products(index rounds) { run_fmas(rounds); }    // nothing here multiplies pairs

#endif

inline constexpr double flops_of_pair_round = 4.0 * fma_chains * (sizeof(fma_vector) / sizeof(float));
inline constexpr double flops_of_fma_round = 2.0 * fma_chains * (sizeof(fma_vector) / sizeof(float));

// ---- reads ----
// What is fastest differs by machine and by page size (hardware prefetchers stop at the end of a 4 KB page), so several loops
// compete: one stream or four, without software prefetch or with one of two hints and distances.
enum class hint { none, t0, t1 };

using read_loop = void (*)(std::byte const* data, index bytes);

struct named_read_loop {
    char const* name;
    read_loop run;
};

// Reads data[0, bytes) once, in Streams equal parts side by side. bytes is a multiple of 1 KB.
template <int Streams, hint Hint, index Ahead>
IMBREX_NOINLINE void read_once(std::byte const* data, index bytes) {
    using vector = xsimd::batch<std::int32_t>;
    constexpr index width = static_cast<index>(sizeof(vector));
    constexpr index chunk = 256;    // bytes of a stream per step
    constexpr int sums = 4;
    vector sum[sums] = {vector(0), vector(0), vector(0), vector(0)};
    index const part = bytes / Streams;
    for (index i = 0; i < part; i += chunk) {
#pragma GCC unroll 4
        for (int s = 0; s < Streams; ++s) {
            std::byte const* const p = data + s * part + i;
#pragma GCC unroll 4
            for (index line = 0; line < chunk; line += 64) {
                if constexpr (Hint == hint::t0) __builtin_prefetch(p + Ahead + line, 0, 3);
                if constexpr (Hint == hint::t1) __builtin_prefetch(p + Ahead + line, 0, 2);
            }
#pragma GCC unroll 16
            for (index j = 0; j < chunk / width; ++j) {
                sum[j % sums] = sum[j % sums] | vector::load_unaligned(reinterpret_cast<std::int32_t const*>(p + j * width));
            }
        }
    }
    vector all = (sum[0] | sum[1]) | (sum[2] | sum[3]);
    benchmark::DoNotOptimize(all);
}

inline constexpr named_read_loop read_loops[] = {
    {"1_stream", read_once<1, hint::none, 0>},
    {"1_stream_T0_4KB_ahead", read_once<1, hint::t0, 4096>},
    {"1_stream_T1_4KB_ahead", read_once<1, hint::t1, 4096>},
    {"4_streams", read_once<4, hint::none, 0>},
    {"4_streams_T0_1KB_ahead", read_once<4, hint::t0, 1024>},
    {"4_streams_T1_4KB_ahead", read_once<4, hint::t1, 4096>},
};

}    // namespace imbrex_bench
