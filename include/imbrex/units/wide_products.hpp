// The wide unit's products: of queries and keys, and of weights and values. Compiled once for all rules, and for all types that
// are widened to T.
#pragma once

#include <algorithm>

#include "imbrex/units/wide_layout.hpp"
#include "imbrex/units/wide_runs.hpp"

IMBREX_ISA_BEGIN

template <class T>
class wide_products {
public:
    using geometry = wide_geometry<T>;

    wide_products(wide_scratch<T> const& scratch, kv_tile<rows<T>, rows<T>> const& tile, rows_ahead& ahead, index head_dim,
                  index head_dim_v) noexcept
        : x_{scratch}, keys_{tile.keys}, values_{tile.values}, ahead_{ahead}, head_dim_{head_dim}, head_dim_v_{head_dim_v} {}

    // Products of the run's keys and N vectors of queries, held finite, to s, and their maxima to m.
    template <int N>
    IMBREX_NOINLINE void score(wide_run const& r, T* m_rows) const noexcept {
        array_of<V, N> m;
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q] = V::load_aligned(m_rows + q * W);
        score_blocks<N, geometry::block(N)>(keys_, r.begin, r.end, r.first * W, m);
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q].store_aligned(m_rows + q * W);
    }

    // o += weights times values.
    template <int N>
    IMBREX_NOINLINE void accumulate(wide_run const& r, sum_before<T> const& before) const noexcept {
        accumulate_blocks<N, geometry::block(N)>(values_.from(r.begin), r.end - r.begin, x_.s + r.begin * max_rows + r.first * W,
                                                 0, r.first * W, before);
    }

private:
    using V = lanes<T>;
    using simd = seam<T>;
    static constexpr int W = geometry::W;
    static constexpr index max_rows = geometry::max_rows;

    // While a block of keys is scored, the keys two blocks on and the values of this block are asked for, a line of each between
    // lines of arithmetic; in bursts it is no better than none. At the ends of a tile and of a row that is what follows them in
    // memory, the next tile most often. From memory, 8192 keys, D=128: 16, 32, 64, 128 rows 43, 60, 81, 81 -> 73, 82, 94, 94 % of
    // the FMA peak; from L2 the same as without (AMD Zen 4, g++ 12, 2026-12-01).
    static constexpr int blocks_ahead = 2;
    static constexpr int row_lines = 2;    // of the next rows, with each line of keys
    static constexpr index numbers_of_line = static_cast<index>(cache_line_bytes / sizeof(T));

    // Blocks of K keys, then of what is left.
    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_blocks(rows<T> keys, index j, index end, index at, array_of<V, N>& m) const noexcept {
        for (; j + K <= end; j += K) score_block<N, K>(keys.from(j), j, x_.s + j * max_rows + at, at, m);
        if constexpr (K > 1) score_blocks<N, rest_of_block(K)>(keys, j, end, at, m);
    }

    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_block(rows<T> keys, index j, T* s, index at, array_of<V, N>& m) const noexcept {
        array_of<array_of<V, N>, K> acc;
        IMBREX_UNROLL for (int a = 0; a < K; ++a) { IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = V(T(0)); }
        T const* queries = x_.q + at;
        T const* k = keys.data;
        index const stride = keys.stride;
        T const* const next = k + blocks_ahead * K * stride;
        T const* const value = values_.row(j);
        index d = 0;
        for (index line = 0; line < head_dim_; line += numbers_of_line) {
            IMBREX_UNROLL for (int a = 0; a < K; ++a) {
                prefetch(next + a * stride + line);
                prefetch(value + a * values_.stride + line);
            }
            ahead_.ask(row_lines);
            index const end = std::min(head_dim_, line + numbers_of_line);
            _Pragma("GCC unroll 2") for (; d < end; ++d, queries += max_rows) {
                array_of<V, N> qv;
                IMBREX_UNROLL for (int q = 0; q < N; ++q) qv[q] = in_register<T>(simd::load(queries + q * W));
                IMBREX_UNROLL for (int a = 0; a < K; ++a) {
                    V const key(k[a * stride + d]);
                    IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = simd::fma(key, qv[q], acc[a][q]);
                }
            }
        }
        IMBREX_UNROLL for (int a = 0; a < K; ++a) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                V const x = finite_score<T>(acc[a][q]);
                x.store_aligned(s + a * max_rows + q * W);
                m[q] = simd::max(m[q], x);
            }
        }
    }

    template <int N, int D>
    IMBREX_ALWAYS_INLINE void accumulate_blocks(rows<T> values, index keys, T const* p, index d, index at,
                                                sum_before<T> const& before) const noexcept {
        for (; d + D <= head_dim_v_; d += D)
            accumulate_block<N, D>(values.data + d, values.stride, keys, p, x_.o + d * max_rows + at, at, before);
        if constexpr (D > 1) accumulate_blocks<N, rest_of_block(D)>(values, keys, p, d, at, before);
    }

    template <int N, int D>
    IMBREX_ALWAYS_INLINE static void accumulate_block(T const* v, index stride, index keys, T const* p, T* o, index at,
                                                      sum_before<T> const& before) noexcept {
        array_of<array_of<V, N>, D> acc;
        IMBREX_UNROLL for (int a = 0; a < D; ++a) { IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = V(T(0)); }
        _Pragma("GCC unroll 2") for (index j = 0; j < keys; ++j, p += max_rows, v += stride) {
            array_of<V, N> pv;
            IMBREX_UNROLL for (int q = 0; q < N; ++q) pv[q] = in_register<T>(simd::load(p + q * W));
            IMBREX_UNROLL for (int a = 0; a < D; ++a) {
                V const value(v[a]);
                IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = simd::fma(value, pv[q], acc[a][q]);
            }
        }
        array_of<V, N> factor;
        IMBREX_UNROLL for (int q = 0; q < N; ++q) factor[q] = before.factor(at + q * W);
        IMBREX_UNROLL for (int a = 0; a < D; ++a) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                T* const to = o + a * max_rows + q * W;
                V const o_before = before.zero ? V(T(0)) : V::load_aligned(to);
                simd::fma(o_before, factor[q], acc[a][q]).store_aligned(to);
            }
        }
    }

    wide_scratch<T> const& x_;
    rows<T> keys_, values_;
    rows_ahead& ahead_;
    index head_dim_, head_dim_v_;
};

IMBREX_ISA_END
