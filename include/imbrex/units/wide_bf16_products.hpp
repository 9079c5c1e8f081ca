// The products of the wide unit of bf16 in pairs: of queries and keys, and of weights and values. Compiled once for all rules and
// outputs.
#pragma once

#include <algorithm>

#include "imbrex/units/bf16_layout.hpp"
#include "imbrex/units/wide_runs.hpp"

#if defined(IMBREX_HAS_BF16_PAIRS)

IMBREX_ISA_BEGIN

class wide_bf16_products {
public:
    using geometry = wide_geometry<float>;

    // one_pair: see pair_scratch.
    wide_bf16_products(wide_scratch<float> const& scratch, pair_tile const& tile, float* one_pair, rows_ahead& ahead,
                       index head_dim, index head_dim_v) noexcept
        : x_{scratch},
          keys_{tile.keys},
          values_{tile.values},
          one_pair_{one_pair},
          ahead_{ahead},
          head_dim_{head_dim},
          head_dim_v_{head_dim_v} {}

    // Products of the run's keys and N vectors of queries, held finite, to s, and their maxima to m.
    template <int N>
    IMBREX_NOINLINE void score(wide_run const& r, float* m_rows) const noexcept {
        array_of<V, N> m;
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q] = V::load_aligned(m_rows + q * W);
        score_blocks<N, geometry::block(N)>(keys_, r.begin, r.end, r.first * W, m);
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q].store_aligned(m_rows + q * W);
    }

    // o += weights times values, of keys [r.begin, r.end): whole pairs, and a pair at each end of which only one key belongs to
    // them. The other's value may be anything, and counts as 0; its weight, where it is of the same pair, is 0.
    template <int N>
    IMBREX_NOINLINE void accumulate(wide_run const& r, sum_before<float> o) const noexcept {
        index const first = (r.begin + 1) / 2, last = r.end / 2, at = r.first * W;
        float const* const p = x_.s + at;
        for (keys_of_pairs const which : {keys_of_pairs::both, keys_of_pairs::second, keys_of_pairs::first}) {
            index pair = first, count = 1;
            value_panels values;
            if (which == keys_of_pairs::both) {
                if (first >= last) continue;
                values = values_.from(first), count = last - first;
            } else if (which == keys_of_pairs::second) {
                if (r.begin % 2 == 0) continue;
                pair = r.begin / 2, values = one_of(pair, pairs::number::odd);
            } else {
                if (r.end % 2 == 0) continue;
                pair = last, values = one_of(pair, pairs::number::even);
            }
            accumulate_blocks<N, geometry::block(N)>(values, count, p + pair * max_rows, 0, at, o);
            o = {};
        }
    }

private:
    using V = lanes<float>;
    using simd = seam<float>;
    using pairs = bf16_pairs;
    static constexpr int W = geometry::W;
    static constexpr index max_rows = geometry::max_rows;

    enum class keys_of_pairs { both, first, second };

    // Keys two blocks on, and the values of this block, are asked for as in wide.hpp.
    static constexpr int blocks_ahead = 2;
    static constexpr int row_lines = 2;
    static constexpr index numbers_of_line = static_cast<index>(cache_line_bytes / sizeof(bf16));

    // Blocks of K keys, then of what is left.
    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_blocks(rows<bf16> keys, index j, index end, index at, array_of<V, N>& m) const noexcept {
        for (; j + K <= end; j += K) score_block<N, K>(keys.from(j), x_.s + j * max_rows + at, at, m);
        if constexpr (K > 1) score_blocks<N, rest_of_block(K)>(keys, j, end, at, m);
    }

    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_block(rows<bf16> keys, float* s, index at, array_of<V, N>& m) const noexcept {
        array_of<array_of<V, N>, K> acc;
        IMBREX_UNROLL for (int a = 0; a < K; ++a) { IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = V(0.0f); }
        float const* queries = x_.q + at;
        bf16 const* k = keys.data;
        index const stride = keys.stride, whole = head_dim_ / 2 * 2;
        bf16 const* const next = k + blocks_ahead * K * stride;
        index d = 0;
        for (index line = 0; line < whole; line += numbers_of_line) {
            IMBREX_UNROLL for (int a = 0; a < K; ++a) prefetch(next + a * stride + line);
            ahead_.ask(row_lines);
            index const end = std::min(whole, line + numbers_of_line);
            _Pragma("GCC unroll 2") for (; d < end; d += 2, queries += max_rows) {
                array_of<V, N> qv;
                IMBREX_UNROLL for (int q = 0; q < N; ++q) qv[q] = in_register<float>(simd::load(queries + q * W));
                IMBREX_UNROLL for (int a = 0; a < K; ++a) {
                    V const key = pairs::broadcast(k + a * stride + d);
                    IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = pairs::dot(key, qv[q], acc[a][q]);
                }
            }
        }
        if (d < head_dim_) {
            IMBREX_UNROLL for (int a = 0; a < K; ++a) {
                V const key = pairs::broadcast_single(k + a * stride + d);
                IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = pairs::dot(key, simd::load(queries + q * W), acc[a][q]);
            }
        }
        IMBREX_UNROLL for (int a = 0; a < K; ++a) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                V const x = finite_score<float>(acc[a][q]);
                x.store_aligned(s + a * max_rows + q * W);
                m[q] = simd::max(m[q], x);
            }
        }
    }

    // A pair's values as panels of that pair alone, of which one number is kept.
    value_panels one_of(index pair, pairs::number which) const noexcept {
        for (index d = 0; d < head_dim_v_; d += W) {
            pairs::only(which, V::load_aligned(values_.at(pair, d))).store_aligned(one_pair_ + d);
        }
        return {one_pair_, value_panels::columns};
    }

    template <int N, int D>
    IMBREX_ALWAYS_INLINE void accumulate_blocks(value_panels values, index count, float const* p, index d, index at,
                                                sum_before<float> const& before) const noexcept {
        for (; d + D <= head_dim_v_; d += D)
            accumulate_block<N, D>(values.at(0, d), count, p, x_.o + d * max_rows + at, at, before);
        if constexpr (D > 1) accumulate_blocks<N, rest_of_block(D)>(values, count, p, d, at, before);
    }

    template <int N, int D>
    IMBREX_ALWAYS_INLINE static void accumulate_block(float const* v, index count, float const* p, float* o, index at,
                                                      sum_before<float> const& before) noexcept {
        array_of<array_of<V, N>, D> acc;
        IMBREX_UNROLL for (int a = 0; a < D; ++a) { IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = V(0.0f); }
        _Pragma("GCC unroll 2") for (index j = 0; j < count; ++j, p += max_rows, v += value_panels::columns) {
            array_of<V, N> pv;
            IMBREX_UNROLL for (int q = 0; q < N; ++q) pv[q] = in_register<float>(simd::load(p + q * W));
            IMBREX_UNROLL for (int a = 0; a < D; ++a) {
                V const value(v[a]);
                IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = pairs::dot(value, pv[q], acc[a][q]);
            }
        }
        array_of<V, N> factor;
        IMBREX_UNROLL for (int q = 0; q < N; ++q) factor[q] = before.factor(at + q * W);
        IMBREX_UNROLL for (int a = 0; a < D; ++a) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                float* const to = o + a * max_rows + q * W;
                V const o_before = before.zero ? V(0.0f) : V::load_aligned(to);
                simd::fma(o_before, factor[q], acc[a][q]).store_aligned(to);
            }
        }
    }

    wide_scratch<float> const& x_;
    rows<bf16> keys_;
    value_panels values_;
    float* one_pair_;
    rows_ahead& ahead_;
    index head_dim_, head_dim_v_;
};

IMBREX_ISA_END

#endif
