// Vector primitives in terms of xsimd alone, right on every ISA. The seam_*.hpp files override the few of them where
// xsimd loses cycles (or has no spelling that both 8.1 and 14 know); simd.hpp picks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <xsimd/xsimd.hpp>

#include "imbrex/dtype_f8.hpp"
#include "imbrex/isa.hpp"

IMBREX_ISA_BEGIN

template <class T>
using lanes = xsimd::batch<T>;

template <class T>
inline constexpr int lane_count = static_cast<int>(lanes<T>::size);

#if defined(__FMA__) || defined(__aarch64__)
inline constexpr bool has_fma = true;
#else
inline constexpr bool has_fma = false;
#endif

#if defined(__clang__)
inline constexpr bool is_gcc = false;
#else
inline constexpr bool is_gcc = true;
#endif

// The integer type whose lanes match T's one for one; token positions are compared in it.
template <class T>
using lane_int = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;

template <class To, class From>
IMBREX_ALWAYS_INLINE lanes<To> reinterpret_lanes(lanes<From> x) noexcept {
    return lanes<To>(__builtin_bit_cast(typename lanes<To>::register_type, x.data));
}

// Hides from the compiler where a value came from.
template <class T>
IMBREX_ALWAYS_INLINE lanes<T> opaque(lanes<T> x) noexcept {
    auto r = x.data;
    asm("" : "+" IMBREX_VECTOR_REGISTER(r));
    return lanes<T>(r);
}

// Keeps a loaded vector in a register: g++ else folds the load into every FMA that uses it (80-85 -> 92-94 % of the FMA peak,
// AMD Zen 4, g++ 12). Only for scalar temporaries: on an array element it forces spills.
template <class T>
IMBREX_ALWAYS_INLINE lanes<T> in_register(lanes<T> x) noexcept {
    return is_gcc ? opaque<T>(x) : x;
}

template <class T>
struct portable_seam {
    using V = lanes<T>;
    using I = lane_int<T>;
    static constexpr int W = lane_count<T>;

    static IMBREX_ALWAYS_INLINE V fma(V a, V b, V c) noexcept { return xsimd::fma(a, b, c); }

    static IMBREX_ALWAYS_INLINE V from_int(lanes<I> x) noexcept { return xsimd::to_float(x); }

    static IMBREX_ALWAYS_INLINE V max(V a, V b) noexcept { return xsimd::max(a, b); }

    // max(bound, x) that hands a NaN in x on.
    static IMBREX_ALWAYS_INLINE V at_least(V bound, V x) noexcept { return xsimd::select(x < bound, bound, x); }
    static IMBREX_ALWAYS_INLINE V at_most(V bound, V x) noexcept { return xsimd::select(x > bound, bound, x); }

    // Reads or writes the first n < W lanes and touches nothing beyond them; the others read as 0.
    template <class E>
    static IMBREX_ALWAYS_INLINE V load_first(E const* p, int n) noexcept {
        alignas(64) array_of<E, W> buffer = {};
        std::memcpy(buffer, p, static_cast<std::size_t>(std::min<int>(n, W)) * sizeof(E));    // g++ 13 cannot see that n <= W
        return load(buffer);
    }
    template <class E>
    static IMBREX_ALWAYS_INLINE void store_first(E* p, V x, int n) noexcept {
        alignas(64) array_of<E, W> buffer;
        store(buffer, x);
        std::memcpy(p, buffer, static_cast<std::size_t>(n) * sizeof(E));
    }

    template <class E>
    static IMBREX_ALWAYS_INLINE V load(E const* p) noexcept {
        if constexpr (std::is_same_v<E, T>) {
            return V::load_unaligned(p);
        } else {
            alignas(64) array_of<T, W> wide;
            for (int i = 0; i < W; ++i) wide[i] = static_cast<T>(looked_up(p[i]));
            return V::load_aligned(wide);
        }
    }
    // 2 W elements as two vectors, in the order that costs least: element i of them is lane pair_lane<E>(i) of low and high side
    // by side. Dot products and sums do not mind, if queries and outputs are kept in the same order.
    template <class E>
    static IMBREX_ALWAYS_INLINE void load_pair(E const* p, V& low, V& high) noexcept {
        low = load(p);
        high = load(p + W);
    }
    template <class E>
    static constexpr int pair_lane(int i) noexcept {
        return i;
    }

    template <class E>
    static IMBREX_ALWAYS_INLINE void store(E* p, V x) noexcept {
        if constexpr (std::is_same_v<E, T>) {
            x.store_unaligned(p);
        } else {
            alignas(64) array_of<T, W> wide;
            x.store_aligned(wide);
            for (int i = 0; i < W; ++i) p[i] = round_to<E>(wide[i]);
        }
    }

    // In-place transpose of W vectors, through memory.
    static IMBREX_ALWAYS_INLINE void transpose(array_of<V, W>& r) noexcept {
        alignas(64) array_of<array_of<T, W>, W> square;
        alignas(64) array_of<T, W> column;
        for (int i = 0; i < W; ++i) r[i].store_aligned(square[i]);
        for (int i = 0; i < W; ++i) {
            for (int j = 0; j < W; ++j) column[j] = square[j][i];
            r[i] = V::load_aligned(column);
        }
    }

    // Lane i of the result is the sum of r[i]'s lanes.
    static IMBREX_ALWAYS_INLINE V sums(array_of<V, W>& r) noexcept {
        transpose(r);
        for (int step = W / 2; step > 0; step /= 2) {
            for (int i = 0; i < step; ++i) r[i] = r[i] + r[i + step];
        }
        return r[0];
    }

    // 2^x for x <= 1023 (f64) or 127 (f32), in place, N vectors in lockstep so that their latencies overlap.
    // Range reduction to r = x - round(x) by adding 1.5 * 2^mantissa, whose low bits then hold round(x), then a
    // polynomial. f32: degree 6, <= 1 ulp on [-126, 127] (SimdExp2.IsWithinOneUlp* tests every float); f64: degree 13.
    // Results below 2^-126.5 (f64: 2^-1022.5), so -inf too, are exactly 0 (with AVX-512 f32: below 2^-149); NaN stays NaN.
    template <int N>
    static IMBREX_ALWAYS_INLINE void exp2(array_of<V, N>& x) noexcept {
        constexpr bool is_double = std::is_same_v<T, double>;
        constexpr T magic = is_double ? T(6755399441055744.0) : T(12582912.0);
        constexpr T lowest = is_double ? T(-1023) : T(-127);
        constexpr int mantissa_bits = is_double ? 52 : 23;
        array_of<V, N> z, p;
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = at_least(V(lowest), x[i]);
        IMBREX_UNROLL for (int i = 0; i < N; ++i) z[i] = opaque<T>(x[i] + V(magic));    // no algebra on x + magic - magic
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = x[i] - (z[i] - V(magic));
        polynomial<N>(x, p);
        IMBREX_UNROLL for (int i = 0; i < N; ++i) {
            auto const exponent = (reinterpret_lanes<I>(z[i]) + lanes<I>(I(-lowest))) << mantissa_bits;
            x[i] = p[i] * reinterpret_lanes<T>(lanes<I>(exponent));
        }
    }

    // p = 2^r for |r| <= 1/2: minimax in f32 (coefficients refitted after rounding them to f32), Taylor in f64.
    template <int N>
    static IMBREX_ALWAYS_INLINE void polynomial(array_of<V, N> const& r, array_of<V, N>& p) noexcept {
        if constexpr (std::is_same_v<T, double>) {
            constexpr double c[14] = {1.3691488853904124e-12, 2.5678435993488196e-11,
                                      4.4455382718708100e-10, 7.0549116208011210e-9,
                                      1.0178086009239696e-7,  1.3215486790144305e-6,
                                      1.5252733804059838e-5,  1.5403530393381606e-4,
                                      1.3333558146428441e-3,  9.6181291076284770e-3,
                                      5.5504108664821576e-2,  2.4022650695910070e-1,
                                      6.9314718055994530e-1,  1.0};
            horner<N, 14>(r, p, c);
        } else {
            constexpr float c[6] = {0.00015345812f, 0.00133999312f, 0.00961848896f, 0.0555032878f, 0.240226469f, 0.693147206f};
            horner<N, 6>(r, p, c);
            IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = one_plus_product(r[i], p[i]);
        }
    }

private:
    // 1 + a b, rounded once or nearly: where there is no FMA, with the product's error (Dekker 1971) and the sum's.
    static IMBREX_ALWAYS_INLINE V one_plus_product(V a, V b) noexcept {
        if constexpr (has_fma) {
            return xsimd::fma(a, b, V(T(1)));
        } else {
            V const a_high = upper_half(a), b_high = upper_half(b);
            V const a_low = a - a_high, b_low = b - b_high;
            V const product = a * b;
            V const product_error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
            V const sum = opaque<T>(V(T(1)) + product);
            return sum + ((product - (sum - V(T(1)))) + product_error);
        }
    }
    // x with the lower half of its mantissa cleared (f32).
    static IMBREX_ALWAYS_INLINE V upper_half(V x) noexcept {
        return reinterpret_lanes<T>(lanes<I>(reinterpret_lanes<I>(x) & lanes<I>(I(-4096))));
    }

    template <int N, int Terms>
    static IMBREX_ALWAYS_INLINE void horner(array_of<V, N> const& r, array_of<V, N>& p, array_of<T, Terms> const& c) noexcept {
        using seam_type = portable_seam;
        IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = seam_type::fma(V(c[0]), r[i], V(c[1]));
        IMBREX_UNROLL for (int k = 2; k < Terms; ++k) {
            IMBREX_UNROLL for (int i = 0; i < N; ++i) p[i] = seam_type::fma(p[i], r[i], V(c[k]));
        }
    }
};

IMBREX_ISA_END
