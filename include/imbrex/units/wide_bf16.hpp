// The wide unit for bf16: dot products of pairs, one query per vector lane.
//
// As the wide unit (wide.hpp), but each broadcast is of a pair, and each multiply-add is two: St = K Qt takes pairs of columns,
// as they lie in K; Ot += Vt Pt pairs of keys, for which values are interleaved (bf16_layout.hpp) and weights rounded to bf16.
// Sums are f32. The sum by which o is divided is that of the rounded weights, so that values of 1 give 1; the log-sum-exp is that
// of the weights before. Register block: 4 vectors of queries x 4 keys (or 4 columns of V), 16 accumulators. Memory traffic a
// tile: K once from where it lies, the values' pairs once; Q, S and O stay in L1, L2.
#pragma once

#include "imbrex/units/bf16_layout.hpp"

#if defined(IMBREX_HAS_BF16_PAIRS)

#include "imbrex/precision.hpp"
#include "imbrex/units/wide_rows.hpp"

IMBREX_ISA_BEGIN

// Whether the wide unit of a precision is this one.
template <class P>
inline constexpr bool pairs_unit = rounds_weights_to_bf16<P>;

template <class P, class Rule>
class wide_bf16_unit : public wide_rows<P, Rule> {
    using base = wide_rows<P, Rule>;

public:
    using typename base::geometry;
    using typename base::row_type;
    using tile_type = pair_tile;
    using base::max_rows;
    using base::W;
    static constexpr position kv_step = 2;

    wide_bf16_unit(pair_scratch const& scratch, Rule const& rule, head_context const& ctx, index head_dim, index head_dim_v,
                   score_scale<float> const& scale) noexcept
        : base{scratch, scratch.l_exact, rule, ctx, head_dim, head_dim_v, scale}, one_pair_{scratch.one_pair} {}

    IMBREX_NOINLINE void begin(row_type const& r) noexcept {
        this->begin_rows(r);
        for (int v = 0; v < vectors_; ++v) pack_query_pairs(r, v * W, head_dim_, scale_.query, x_.q);
    }

    IMBREX_NOINLINE void score(tile_type const& tile, tile_window const& w, coverage seen) noexcept {
        values_ = tile.values;
        this->score_runs(w, seen, [&](wide_run const& r, float* m) {
            with_vectors(r.vectors, [&](auto n) { score_vectors<n()>(tile.keys, r, m + r.first * W); });
        });
    }

    // Pairs of weights take the place of scores that have been read: row j of s, of keys 2 j and 2 j + 1.
    IMBREX_NOINLINE void absorb() noexcept {
        this->absorb_runs([&](wide_run const& r, auto n, float const* alpha) {
            index const at = r.first * W;
            weigh_pairs<n()>(x_.s + r.begin * max_rows + at, r.end - r.begin, scale_.log2e, x_.m + at,
                             x_.s + r.begin / 2 * max_rows + at, {alpha, x_.l + at, l_exact_ + at});
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
    using base::l_exact_;
    using base::scale_;
    using base::vectors_;
    using base::with_vectors;
    using base::x_;
    using typename base::simd;
    using typename base::V;
    using pairs = bf16_pairs;

    // Keys two blocks on, and the values of this block, are asked for as in wide.hpp.
    static constexpr int blocks_ahead = 2;
    static constexpr index numbers_of_line = static_cast<index>(cache_line_bytes / sizeof(bf16));

    template <int N>
    IMBREX_NOINLINE void score_vectors(rows<bf16> keys, wide_run const& r, float* m_rows) noexcept {
        array_of<V, N> m;
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q] = V::load_aligned(m_rows + q * W);
        score_blocks<N, geometry::block(N)>(keys, r.begin, r.end, r.first * W, m);
        IMBREX_UNROLL for (int q = 0; q < N; ++q) m[q].store_aligned(m_rows + q * W);
    }

    // Blocks of K keys, then what is left in halves.
    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_blocks(rows<bf16> keys, index j, index end, index at, array_of<V, N>& m) noexcept {
        for (; j + K <= end; j += K) score_block<N, K>(keys.from(j), x_.s + j * max_rows + at, at, m);
        if constexpr (K > 1) score_blocks<N, K / 2>(keys, j, end, at, m);
    }

    template <int N, int K>
    IMBREX_ALWAYS_INLINE void score_block(rows<bf16> keys, float* s, index at, array_of<V, N>& m) noexcept {
        array_of<array_of<V, N>, K> acc;
        IMBREX_UNROLL for (int a = 0; a < K; ++a) { IMBREX_UNROLL for (int q = 0; q < N; ++q) acc[a][q] = V(0.0f); }
        float const* queries = x_.q + at;
        bf16 const* k = keys.data;
        index const stride = keys.stride, whole = head_dim_ / 2 * 2;
        bf16 const* const next = k + blocks_ahead * K * stride;
        index d = 0;
        for (index line = 0; line < whole; line += numbers_of_line) {
            IMBREX_UNROLL for (int a = 0; a < K; ++a) prefetch(next + a * stride + line);
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

    // Keys [r.begin, r.end): whole pairs, and a pair at each end of which only one key belongs to them. The other's value may be
    // anything, and counts as 0; its weight, where it is of the same pair, is 0.
    template <int N, shrinking S>
    IMBREX_NOINLINE void accumulate_run(value_panels values, wide_run const& r) noexcept {
        index const first = (r.begin + 1) / 2, last = r.end / 2, at = r.first * W;
        float const* const p = x_.s + at;
        constexpr int D = geometry::block(N);
        if (first < last) accumulate_blocks<N, D, S>(values.from(first), last - first, p + first * max_rows, 0, at);
        if (r.begin % 2 == 0 && r.end % 2 == 0) return;
        bool const whole = first < last;
        if (whole) fresh_ = false;
        if (r.begin % 2 != 0) {
            accumulate_blocks<N, D, shrinking::done>(one_of(values, r.begin / 2, pairs::number::odd), 1,
                                                     p + r.begin / 2 * max_rows, 0, at);
        }
        if (r.end % 2 == 0) return;
        value_panels const even = one_of(values, last, pairs::number::even);
        if (whole) {
            accumulate_blocks<N, D, shrinking::done>(even, 1, p + last * max_rows, 0, at);
        } else {
            accumulate_blocks<N, D, S>(even, 1, p + last * max_rows, 0, at);
        }
    }

    // A pair's values as panels of that pair alone, of which one number is kept.
    value_panels one_of(value_panels values, index pair, pairs::number which) const noexcept {
        for (index d = 0; d < head_dim_v_; d += W) {
            pairs::only(which, V::load_aligned(values.at(pair, d))).store_aligned(one_pair_ + d);
        }
        return {one_pair_, value_panels::columns};
    }

    template <int N, int D, shrinking S>
    IMBREX_ALWAYS_INLINE void accumulate_blocks(value_panels values, index count, float const* p, index d, index at) noexcept {
        for (; d + D <= head_dim_v_; d += D) accumulate_block<N, D, S>(values.at(0, d), count, p, x_.o + d * max_rows + at, at);
        if constexpr (D > 1) accumulate_blocks<N, D / 2, S>(values, count, p, d, at);
    }

    template <int N, int D, shrinking S>
    IMBREX_ALWAYS_INLINE void accumulate_block(float const* v, index count, float const* p, float* o, index at) noexcept {
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
        IMBREX_UNROLL for (int a = 0; a < D; ++a) {
            IMBREX_UNROLL for (int q = 0; q < N; ++q) {
                float* const to = o + a * max_rows + q * W;
                V const before = fresh_ ? V(0.0f) : V::load_aligned(to);
                V const sum = S == shrinking::now ? simd::fma(before, V::load_aligned(x_.alpha + at + q * W), acc[a][q])
                                                  : before + acc[a][q];
                sum.store_aligned(to);
            }
        }
    }

    float* one_pair_;          // see pair_scratch
    value_panels values_{};    // of the tile
};

IMBREX_ISA_END

#else

IMBREX_ISA_BEGIN

// There is none: its name stands in branches that are not taken.
template <class P>
inline constexpr bool pairs_unit = false;

template <class P, class Rule>
class wide_bf16_unit;

IMBREX_ISA_END

#endif
