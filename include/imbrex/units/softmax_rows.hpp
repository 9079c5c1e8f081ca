// The exponentials of the online softmax, shared by the units.
#pragma once

#include "imbrex/simd.hpp"

IMBREX_ISA_BEGIN

template <class T>
IMBREX_ALWAYS_INLINE lanes<T> exp2_of(lanes<T> x) noexcept {
    lanes<T> one[1] = {x};
    seam<T>::template exp2<1>(one);
    return one[0];
}

// s: steps rows of N vectors, `stride` elements apart, scores in log2 units; becomes the weights 2^(s - m).
// m, alpha, l: N vectors. l becomes alpha l + sum (without alpha: l + sum), the sum taken in the order of the steps. o is summed
// in the same way, so that V = 1 gives exactly 1.
template <class T, int N>
IMBREX_NOINLINE void weigh_rows(T* s, index stride, index steps, T const* m_rows, T const* alpha, T* l_rows) noexcept {
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
            IMBREX_UNROLL for (int q = 0; q < N; ++q) x[u * N + q] = V::load_aligned(row + u * stride + q * W) - m[q];
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
