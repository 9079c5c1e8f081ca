// tanh of lanes or of a number, from the exponential that the softmax uses.
//
// |x| <= 0.55: x + x^3 P(x^2), an odd minimax polynomial; beyond: 1 - 2 e / (1 + e) with e = 2^(-2 |x| log2 e), which needs no
// bound on |x|: e fades to 0. Both are computed, and one is picked.
// Error: f32 <= 2 ulp (1.65 at worst, near 0.8), f64 <= 4 ulp (1.7 found), with or without FMA; +-1 exactly from |x| = 9.02 (f32)
// or 19.1 (f64) on; NaN stays NaN. Held by tests/simd_tanh_test.cpp.
// 16 cycles a vector of 16 floats, 35 one of 8 doubles (AMD Zen 4, g++ 12, AVX-512, 2026-11-30).
#pragma once

#include <limits>
#include <type_traits>

#include "imbrex/simd.hpp"

IMBREX_ISA_BEGIN

namespace tanh_detail {

// P, the highest power first: Remez in 60 digits, each coefficient rounded and the lower ones then held. Its error adds 2^-24.7
// (f32) or 2^-59.2 (f64) to the relative error of tanh.
template <class T>
struct polynomial {
    static constexpr int terms = 4;
    static constexpr T c[terms] = {0.016437864f, -0.052672006f, 0.13320729f, -0.33332947f};
};
template <>
struct polynomial<double> {
    static constexpr int terms = 11;
    static constexpr double c[terms] = {-1.951745432211125e-05, 8.334955129822271e-05,  -0.00023340162334380753,
                                        0.000588450950966097,   -0.0014555440057099865, 0.0035920921364448965,
                                        -0.008863232604012927,  0.021869488385564687,   -0.0539682539637402,
                                        0.1333333333332658,     -0.333333333333333};
};

}    // namespace tanh_detail

template <class T, class A>
IMBREX_ALWAYS_INLINE lanes<T> tanh(xsimd::batch<T, A> x) noexcept {
    using V = lanes<T>;
    using simd = seam<T>;
    using small = tanh_detail::polynomial<T>;
    V const sign(T(-0.0));
    V const minus_size = x | sign;
    array_of<V, 1> e = {minus_size * V(T(2.8853900817779268))};
    simd::template exp2<1>(e);
    V const large = V(T(1)) - (e[0] + e[0]) / (V(T(1)) + e[0]);

    V const z = x * x;
    V p = V(small::c[0]);
    IMBREX_UNROLL for (int i = 1; i < small::terms; ++i) p = simd::fma(p, z, V(small::c[i]));
    V const near = simd::fma(p * z, x, x);
    return xsimd::select(minus_size >= V(T(-0.55)), near, large | (x & sign));
}

// The same number as each of its lanes would hold.
template <class T>
    requires std::is_floating_point_v<T> IMBREX_ALWAYS_INLINE T tanh(T x)
noexcept { return imbrex::tanh(lanes<T>(x)).get(0); }

IMBREX_ISA_END
