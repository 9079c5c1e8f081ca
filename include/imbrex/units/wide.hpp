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
#include <utility>

#include "imbrex/units/seen_keys.hpp"
#include "imbrex/units/softmax_rows.hpp"
#include "imbrex/units/wide_layout.hpp"
#include "imbrex/units/wide_rule_pass.hpp"
#include "imbrex/units/wide_runs.hpp"

IMBREX_ISA_BEGIN

template <class P, class Rule>
class wide_unit : wide_geometry<typename P::score> {
public:
    using T = typename P::score;
    using row_type = row_block<typename P::query, typename P::output>;
    using tile_type = kv_tile<rows<T>, rows<T>>;
    using geometry = wide_geometry<T>;
    using geometry::max_rows;
    using geometry::W;

    wide_unit(wide_scratch<T> const& scratch, Rule const& rule, head_context const& ctx, index head_dim, index head_dim_v,
              score_scale<T> const& scale) noexcept
        : x_{scratch},
          rule_{rule},
          ctx_{ctx},
          head_dim_{head_dim},
          head_dim_v_{head_dim_v},
          scale_{scale},
          rules_{scratch, rule, ctx, scale.product} {}

    position q_first() const noexcept { return static_cast<position>(x_.positions[0]); }
    position q_last() const noexcept { return static_cast<position>(x_.positions[count_ - 1]); }

    IMBREX_NOINLINE void begin(row_type const& r) noexcept {
        count_ = r.count;
        vectors_ = static_cast<int>((count_ + W - 1) / W);
        for (index i = 0; i < vectors_ * W; ++i) {
            index const row = std::min(i, count_ - 1);
            x_.positions[i] = static_cast<lane_int<T>>(ctx_.query_offset() + r.token(row));
            x_.heads[i] = static_cast<lane_int<T>>(ctx_.head_first + r.head(row));
        }
        for (int v = 0; v < vectors_; ++v) {
            pack_queries(r, v * W, head_dim_, scale_.query, x_.q);
            V(lowest_score<T>).store_aligned(x_.m + v * W);
            V(T(0)).store_aligned(x_.l + v * W);
        }
        std::fill_n(x_.alpha, max_rows, T(0));
        fresh_ = true;
    }

    IMBREX_NOINLINE void score(tile_type const& tile, tile_window const& w, coverage seen) noexcept {
        runs_.find(rule_, ctx_, w, seen, x_.positions, count_);
        kv_begin_ = w.kv_begin;
        values_ = tile.values;
        if (seen == coverage::partial) seen_.reset(w.kv_end - w.kv_begin);
        std::copy_n(x_.m, vectors_ * W, x_.m_next);
        for (wide_run const& r : runs_) {
            if (r.seen == coverage::full && !changes_scores<Rule>) {
                score_run(tile.keys, r, x_.m_next);
            } else {
                score_run_by_rule(tile.keys, r);
            }
        }
    }

    IMBREX_NOINLINE void absorb() noexcept {
        for (int v = 0; v < vectors_; ++v) {
            V const m_next = V::load_aligned(x_.m_next + v * W);
            exp2_of<T>(V::load_aligned(x_.m + v * W) - m_next, scale_.log2e).store_aligned(x_.alpha + v * W);
            m_next.store_aligned(x_.m + v * W);
        }
        first_covers_all_ = !runs_.empty() && runs_.front().vectors == vectors_ && all_seen(runs_.front());
        if (!first_covers_all_) fresh_ ? clear() : shrink();
        for (wide_run const& r : runs_) {
            with_vectors(r.vectors, [&](auto n) {
                index const at = r.first * W;
                T const* const alpha = shrinks(r) ? x_.alpha : nullptr;
                weigh_rows<T, n()>(x_.s + r.begin * max_rows + at, max_rows, r.end - r.begin, scale_.log2e, x_.m + at, alpha,
                                   x_.l + at);
            });
        }
    }

    IMBREX_NOINLINE void accumulate(tile_type const& tile) noexcept {
        for (wide_run const* r = runs_.begin(); r != runs_.end();) {
            bool const whole = all_seen(*r), now = shrinks(*r);
            wide_run const joined = whole ? joined_from(r) : *r++;
            with_vectors(joined.vectors, [&](auto n) {
                if (now) {
                    accumulate_run<n(), shrinking::now>(tile.values, joined);
                } else if (whole) {
                    accumulate_run<n(), shrinking::done>(tile.values, joined);
                } else {
                    seen_.for_each(joined.begin, joined.end, [&](index first, index last) {
                        accumulate_run<n(), shrinking::done>(tile.values,
                                                             {first, last, joined.first, joined.vectors, joined.seen});
                    });
                }
            });
            fresh_ = false;
        }
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept {
        if (fresh_) clear();
        end_rows(r);
        for (int v = 0; v < vectors_; ++v) unpack_outputs(r, v * W, head_dim_v_, x_.o, x_.alpha);
    }

private:
    using V = lanes<T>;
    using simd = seam<T>;
    enum class shrinking { now, done };    // of o by alpha
    // While a block of keys is scored, the keys two blocks on and the values of this block are asked for, a line of each between
    // lines of arithmetic; in bursts it is no better than none. At the ends of a tile and of a row that is what follows them in
    // memory, the next tile most often. From memory, 8192 keys, D=128: 16, 32, 64, 128 rows 43, 60, 81, 81 -> 73, 82, 94, 94 % of
    // the FMA peak; from L2 the same as without (AMD Zen 4, g++ 12, 2026-12-01).
    static constexpr int blocks_ahead = 2;
    static constexpr index numbers_of_line = static_cast<index>(cache_line_bytes / sizeof(T));

    // The run that shrinks l and o while it adds to them: the first, if it has all vectors and leaves out no key.
    bool all_seen(wide_run const& r) const noexcept { return r.seen == coverage::full || seen_.all(r.begin, r.end); }
    bool shrinks(wide_run const& r) const noexcept { return first_covers_all_ && &r == runs_.begin(); }

    // r and the runs after it with the same vectors that leave out no key either, as one, since each pass over o costs as much as
    // several keys; r goes beyond them.
    wide_run joined_from(wide_run const*& r) const noexcept {
        wide_run joined = *r;
        for (++r; r != runs_.end() && r->begin == joined.end && r->first == joined.first && r->vectors == joined.vectors &&
                  all_seen(*r);
             ++r) {
            joined.end = r->end;
        }
        return joined;
    }

    // Calls f with the number of live vectors as a compile-time constant.
    template <class F>
    static IMBREX_ALWAYS_INLINE void with_vectors(int n, F f) noexcept {
        [&]<int... I>(std::integer_sequence<int, I...>) {
            ((n == I + 1 ? f(std::integral_constant<int, I + 1>{}) : void()), ...);
        }
        (std::make_integer_sequence<int, geometry::max_vectors>{});
    }

    // 1 / l of each row, in alpha; and the log-sum-exp, where it is wanted.
    void end_rows(row_type const& r) noexcept {
        if constexpr (adds_sink<Rule>) {
            for (index i = 0; i < count_; ++i) {
                row_context<position> const ctx{ctx_, static_cast<position>(x_.heads[i])};
                row_end<T> const end = end_row<T>(rule_, ctx, scale_.natural, x_.m[i], x_.l[i]);
                x_.alpha[i] = end.inverse;
                if (r.lse != nullptr) *r.log_sum_exp(i) = end.log_sum_exp();
            }
        } else {
            for (int v = 0; v < vectors_; ++v) {
                V const l = V::load_aligned(x_.l + v * W);
                V(xsimd::select(l == V(T(0)), V(T(0)), V(T(1)) / l)).store_aligned(x_.alpha + v * W);
            }
            if (r.lse == nullptr) return;
            for (index i = 0; i < count_; ++i) *r.log_sum_exp(i) = row_end<T>::of(scale_.natural, x_.m[i], x_.l[i]).log_sum_exp();
        }
    }

    // Products of queries and keys, held finite, and their maxima m: max_rows.
    void score_run(rows<T> keys, wide_run const& r, T* m) noexcept {
        with_vectors(r.vectors, [&](auto n) { score_vectors<n()>(keys, r, m + r.first * W); });
    }

    // The same as the rule has them, some keys at a time, while they are in L1.
    void score_run_by_rule(rows<T> keys, wide_run const& r) noexcept {
        constexpr index at_once = 2 * geometry::segment;
        for (index j = r.begin; j < r.end; j += at_once) {
            wide_run const part{j, std::min(r.end, j + at_once), r.first, r.vectors, r.seen};
            score_run(keys, part, x_.alpha);    // maxima of no use, as the rule may change them
            rules_.apply(part, kv_begin_, seen_);
        }
    }

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

    void clear() noexcept {
        std::fill_n(x_.o, head_dim_v_ * max_rows, T(0));
        fresh_ = false;
    }
    void shrink() noexcept {
        for (int v = 0; v < vectors_; ++v) {
            V const alpha = V::load_aligned(x_.alpha + v * W);
            (V::load_aligned(x_.l + v * W) * alpha).store_aligned(x_.l + v * W);
            for (index d = 0; d < head_dim_v_; ++d) {
                T* const o = x_.o + d * max_rows + v * W;
                (V::load_aligned(o) * alpha).store_aligned(o);
            }
        }
    }

    wide_scratch<T> x_;
    Rule const& rule_;
    head_context const& ctx_;
    index head_dim_, head_dim_v_;
    score_scale<T> scale_;
    index count_ = 0;
    int vectors_ = 0;
    index kv_begin_ = 0;
    rows<T> values_{};    // of the tile
    bool first_covers_all_ = false;
    bool fresh_ = true;    // o is 0, whatever its memory holds
    wide_runs<T> runs_;
    wide_rule_pass<T, Rule> rules_;
    seen_keys seen_;
};

IMBREX_ISA_END
