// Vector maths that rules and units share. Everything is xsimd's but for one narrow seam of intrinsics (simd/seam_*.hpp),
// chosen here from the compiler's flags.
//
// Floating-point environment: round-to-nearest is assumed. With flush-to-zero or denormals-are-zero set, results differ only
// where a weight or an input is denormal.
#pragma once

#include "imbrex/simd/portable.hpp"

#if defined(IMBREX_HAS_AVX512)
#include "imbrex/simd/seam_avx512.hpp"
#elif defined(IMBREX_HAS_AVX2_FMA)
#include "imbrex/simd/seam_avx2.hpp"
#elif defined(__aarch64__)
#include "imbrex/simd/seam_neon.hpp"
#endif

IMBREX_ISA_BEGIN

// Sets functions apart that are compiled for several instruction sets and outside of whose names nothing tells which.
struct isa_tag {};

template <class T>
struct seam_for {
    using type = portable_seam<T>;
};

#if defined(IMBREX_HAS_AVX512)
template <>
struct seam_for<float> {
    using type = avx512_seam;
};
#elif defined(IMBREX_HAS_AVX2_FMA)
template <>
struct seam_for<float> {
    using type = avx2_seam;
};
#elif defined(__aarch64__)
template <>
struct seam_for<float> {
    using type = neon_seam;
};
#endif

template <class T>
using seam = typename seam_for<T>::type;

// Vector registers that accumulators may fill: 16 of 32 (AVX-512, NEON), 12 of 16.
#if defined(IMBREX_HAS_AVX512) || defined(__aarch64__)
inline constexpr int accumulator_registers = 16;
#else
inline constexpr int accumulator_registers = 12;
#endif

// Lanes in which a mask is no number. AVX-512's masks convert to bool, so that `if` or `?:` on them compiles, and is wrong; what
// has to compile with these lanes too cannot say that.
#if defined(IMBREX_HAS_AVX512)
using probe_lanes = xsimd::batch<std::int32_t, xsimd::sse2>;
#else
using probe_lanes = lanes<std::int32_t>;
#endif

// Asks for a line that will be read soon, into L2.
IMBREX_ALWAYS_INLINE void prefetch(void const* p) noexcept { __builtin_prefetch(p, 0, 2); }
IMBREX_ALWAYS_INLINE void prefetch_to_write(void const* p) noexcept { __builtin_prefetch(p, 1, 3); }

// Lane i holds first + i / repeat: the positions of W / repeat consecutive keys, each repeated for `repeat` rows.
template <class T>
IMBREX_ALWAYS_INLINE lanes<lane_int<T>> positions_from(index first, int repeat) noexcept {
    using I = lane_int<T>;
    alignas(64) array_of<I, lane_count<T>> step;
    for (int i = 0; i < lane_count<T>; ++i) step[i] = static_cast<I>(i / repeat);
    return lanes<I>(static_cast<I>(first)) + lanes<I>::load_aligned(step);
}

// A mask over integer lanes as a mask over the T lanes that match them one for one.
template <class T>
IMBREX_ALWAYS_INLINE xsimd::batch_bool<T> as_score_mask(xsimd::batch_bool<lane_int<T>> keep) noexcept {
    return xsimd::batch_bool<T>(__builtin_bit_cast(typename xsimd::batch_bool<T>::register_type, keep.data));
}

IMBREX_ISA_END
