// The exponentials of the online softmax, shared by the units.
#pragma once

#include <cmath>

#include "imbrex/simd.hpp"

IMBREX_ISA_BEGIN

// How scores q kT become weights: e^(scale (s - m)) = 2^(log2e (s - m)).
//
// Decision: the scale is applied to differences of scores. Folded into the queries, with log2 e or without, it rounds every
// product: where scores are near 1e4 a naive computation can be exact and the folded one 1.8e-4 off. This costs one
// multiplication a score (0.4 % of the time at D=128).
// A rule that changes scores must see them scaled: then the scale is the products' factor, and none is left for the differences.
enum class scale_applies { to_differences, to_products };

template <class T>
struct score_scale {
    T query = T(1);        // exact factor of the queries: -1 for a negative scale, so that a maximum is one; 0 for 0
    T product = T(1);      // factor of each product of a query and a key
    T log2e = T(1);        // log2 e times the factor of differences of scores, positive
    double natural = 1;    // that factor

    score_scale(double scale, scale_applies where) noexcept {
        double const size = where == scale_applies::to_products ? 1 : std::abs(scale);
        if (where == scale_applies::to_products) product = static_cast<T>(std::abs(scale));
        query = scale < 0 ? T(-1) : T(1);
        log2e = static_cast<T>(size * 1.4426950408889634074);
        natural = size;
        if (log2e == T(0)) query = T(0), log2e = T(1), natural = 0;    // 0 x -inf would be NaN
        if (product == T(0)) query = T(0), product = T(1);
    }
};

// 2^(x factor) for one vector.
template <class T>
IMBREX_ALWAYS_INLINE lanes<T> exp2_of(lanes<T> x, T factor) noexcept {
    lanes<T> one[1] = {x * lanes<T>(factor)};
    seam<T>::template exp2<1>(one);
    return one[0];
}

// s: steps rows of N vectors, `stride` elements apart, scores; becomes the weights 2^(log2e (s - m)).
// m, alpha, l: N vectors. l becomes alpha l + sum (without alpha: l + sum), the sum taken in the order of the steps. o is summed
// in the same way, so that V = 1 gives o = l and an output within 1 ulp of 1.
template <class T, int N>
IMBREX_NOINLINE void weigh_rows(T* s, index stride, index steps, T log2e, T const* m_rows, T const* alpha, T* l_rows) noexcept {
    using V = lanes<T>;
    constexpr int W = lane_count<T>;
    constexpr int together = N >= 3 ? 1 : 4 / N;    // steps in lockstep, so that short rows hide the latency too
    array_of<V, N> m, sum;
    IMBREX_UNROLL for (int q = 0; q < N; ++q) {
        m[q] = V::load_aligned(m_rows + q * W);
        sum[q] = V(T(0));
    }
    auto const weigh = [&]<int U>(T* row, std::integral_constant<int, U>) {
        array_of<V, U * N> x;
        IMBREX_UNROLL for (int u = 0; u < U; ++u) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                x[u * N + q] = (V::load_aligned(row + u * stride + q * W) - m[q]) * V(log2e);
            }
        }
        seam<T>::template exp2<U * N>(x);
        IMBREX_UNROLL for (int u = 0; u < U; ++u) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                x[u * N + q].store_aligned(row + u * stride + q * W);
                sum[q] = sum[q] + x[u * N + q];
            }
        }
    };
    index j = 0;
    for (; j + together <= steps; j += together) weigh(s + j * stride, std::integral_constant<int, together>{});
    for (; j < steps; ++j) weigh(s + j * stride, std::integral_constant<int, 1>{});
    IMBREX_UNROLL for (int q = 0; q < N; ++q) {
        V const before = V::load_aligned(l_rows + q * W);
        V const l = alpha != nullptr ? seam<T>::fma(before, V::load_aligned(alpha + q * W), sum[q]) : before + sum[q];
        l.store_aligned(l_rows + q * W);
    }
}

IMBREX_ISA_END
