// The wide unit: one query per vector lane.
//
// It computes the transposed tile, St = K Qt and Ot += Vt Pt. Only Q is packed (transposed once). K and V are read where they
// lie: each element is broadcast into FMAs against `max_vectors` vectors of queries. Max, sum and rescale are vertical, key
// tails need no vector masks, and O is transposed once at the end.
// Register block: 4 vectors of queries x 4 keys (or 4 columns of V), 16 accumulators; 3 x 4 where there are 16 registers.
// Sums start at 0 in each tile and are then added to o and l, so that their error grows with the tiles, not with the keys.
// Memory traffic a tile: K and V once from where they lie, or from scratch where they had to be widened; Q, S and O stay in L1,
// L2. Online softmax: Milakov & Gimelshein 2018, arXiv:1805.02867, Alg. 3; tiling: Dao et al. 2022, arXiv:2205.14135.
#pragma once

#include <algorithm>

#include "imbrex/units/wide_rows.hpp"

IMBREX_ISA_BEGIN

template <class P, class Rule>
class wide_unit : public wide_rows<P, Rule> {
    using base = wide_rows<P, Rule>;

public:
    using typename base::geometry;
    using typename base::row_type;
    using typename base::T;
    using tile_type = kv_tile<rows<T>, rows<T>>;
    using base::max_rows;
    using base::W;

    wide_unit(wide_scratch<T> const& scratch, Rule const& rule, head_context const& ctx, index head_dim, index head_dim_v,
              score_scale<T> const& scale) noexcept
        : base{scratch, scratch.l, rule, ctx, head_dim, head_dim_v, scale} {}

    IMBREX_NOINLINE void begin(row_type const& r) noexcept {
        this->begin_rows(r);
        for (int v = 0; v < vectors_; ++v) pack_queries(r, v * W, head_dim_, scale_.query, x_.q);
    }

    IMBREX_NOINLINE void score(tile_type const& tile, tile_window const& w, coverage seen) noexcept {
        values_ = tile.values;
        this->score_runs(w, seen, [&](wide_run const& r, T* m) {
            with_vectors(r.vectors, [&](auto n) { score_vectors<n()>(tile.keys, r, m + r.first * W); });
        });
    }

    IMBREX_NOINLINE void absorb() noexcept {
        this->absorb_runs([&](wide_run const& r, auto n, T const* alpha) {
            index const at = r.first * W;
            weigh_rows<T, n()>(x_.s + r.begin * max_rows + at, max_rows, r.end - r.begin, scale_.log2e, x_.m + at, alpha,
                               x_.l + at);
        });
    }

    IMBREX_NOINLINE void accumulate(tile_type const& tile) noexcept {
        this->accumulate_runs([&](wide_run const& r, auto n, auto s) { accumulate_run<n(), s()>(tile.values, r); });
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept { this->finish_rows(r); }

private:
    using base::fresh_;
    using base::head_dim_;
    using base::head_dim_v_;
    using base::scale_;
    using base::vectors_;
    using base::with_vectors;
    using base::x_;
    using typename base::simd;
    using typename base::V;

    // While a block of keys is scored, the keys two blocks on and the values of this block are asked for, a line of each between
    // lines of arithmetic; in bursts it is no better than none. At the ends of a tile and of a row that is what follows them in
    // memory, the next tile most often. From memory, 8192 keys, D=128: 16, 32, 64, 128 rows 43, 60, 81, 81 -> 73, 82, 94, 94 % of
    // the FMA peak; from L2 the same as without (AMD Zen 4, g++ 12, 2026-12-01).
    static constexpr int blocks_ahead = 2;
    static constexpr index numbers_of_line = static_cast<index>(cache_line_bytes / sizeof(T));

    template <int N>
    IMBREX_NOINLINE void score_vectors(rows<T> keys, wide_run const& r, T* m_rows) noexcept {
        array_of<V, N> m;
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q] = V::load_aligned(m_rows + q * W);
        score_blocks<N, geometry::block(N)>(keys, r.begin, r.end, r.first * W, m);
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q].store_aligned(m_rows + q * W);
    }

    // Blocks of K keys, then what is left in halves.
    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_blocks(rows<T> keys, index j, index end, index at, array_of<V, N>& m) noexcept {
        for (; j + K <= end; j += K) score_block<N, K>(keys.from(j), j, x_.s + j * max_rows + at, at, m);
        if constexpr (K > 1) score_blocks<N, K / 2>(keys, j, end, at, m);
    }

    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_block(rows<T> keys, index j, T* s, index at, array_of<V, N>& m) noexcept {
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

    template <int N, shrinking S>
    IMBREX_NOINLINE void accumulate_run(rows<T> values, wide_run const& r) noexcept {
        accumulate_blocks<N, geometry::block(N), S>(values.from(r.begin), r.end - r.begin,
                                                    x_.s + r.begin * max_rows + r.first * W, 0, r.first * W);
    }

    template <int N, int D, shrinking S>
    IMBREX_ALWAYS_INLINE void accumulate_blocks(rows<T> values, index keys, T const* p, index d, index at) noexcept {
        for (; d + D <= head_dim_v_; d += D)
            accumulate_block<N, D, S>(values.data + d, values.stride, keys, p, x_.o + d * max_rows + at, at);
        if constexpr (D > 1) accumulate_blocks<N, D / 2, S>(values, keys, p, d, at);
    }

    template <int N, int D, shrinking S>
    IMBREX_ALWAYS_INLINE void accumulate_block(T const* v, index stride, index keys, T const* p, T* o, index at) noexcept {
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
        IMBREX_UNROLL for (int a = 0; a < D; ++a) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                T* const to = o + a * max_rows + q * W;
                V const before = fresh_ ? V(T(0)) : V::load_aligned(to);
                V const sum = S == shrinking::now ? simd::fma(before, V::load_aligned(x_.alpha + at + q * W), acc[a][q])
                                                  : before + acc[a][q];
                sum.store_aligned(to);
            }
        }
    }

    rows<T> values_{};    // of the tile
};

IMBREX_ISA_END
