// The wide unit for bf16: dot products of pairs, one query per vector lane.
//
// As the wide unit (wide.hpp), but each broadcast is of a pair, and each multiply-add is two: St = K Qt takes pairs of columns,
// as they lie in K; Ot += Vt Pt pairs of keys, for which values are interleaved (bf16_layout.hpp) and weights rounded to bf16.
// Sums are f32. The sum by which o is divided is that of the rounded weights, so that values of 1 give 1; the log-sum-exp is that
// of the weights before. Register block: 4 vectors of queries x 4 keys (or 4 columns of V), 16 accumulators. Memory traffic a
// tile: K once from where it lies, the values' pairs once; Q, S and O stay in L1, L2.
#pragma once

#include "imbrex/units/bf16_layout.hpp"
#include "imbrex/units/wide_bf16_products.hpp"

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
        wide_bf16_products const products{x_, tile, one_pair_, ahead_, head_dim_, head_dim_v_};
        this->score_runs(w, seen, [&](wide_run const& r, float* m) {
            with_vectors(r.vectors, [&](auto n) { products.score<n()>(r, m + r.first * W); });
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
        wide_bf16_products const products{x_, tile, one_pair_, ahead_, head_dim_, head_dim_v_};
        this->accumulate_runs([&](wide_run const& r, auto n, sum_before<float> const& o) { products.accumulate<n()>(r, o); });
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept { this->finish_rows(r); }

private:
    using base::ahead_;
    using base::head_dim_;
    using base::head_dim_v_;
    using base::l_exact_;
    using base::scale_;
    using base::vectors_;
    using base::with_vectors;
    using base::x_;

    float* one_pair_;    // see pair_scratch
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
