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

#include "imbrex/units/wide_products.hpp"
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
        wide_products<T> const products{x_, tile, ahead_, head_dim_, head_dim_v_};
        this->score_runs(w, seen, [&](wide_run const& r, T* m) {
            with_vectors(r.vectors, [&](auto n) { products.template score<n()>(r, m + r.first * W); });
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
        wide_products<T> const products{x_, tile, ahead_, head_dim_, head_dim_v_};
        this->accumulate_runs(
            [&](wide_run const& r, auto n, sum_before<T> const& o) { products.template accumulate<n()>(r, o); });
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept { this->finish_rows(r); }

private:
    using base::ahead_;
    using base::head_dim_;
    using base::head_dim_v_;
    using base::scale_;
    using base::vectors_;
    using base::with_vectors;
    using base::x_;
};

IMBREX_ISA_END
