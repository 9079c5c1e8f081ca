// The AMX unit: up to 128 query rows, 32 at a time, against bf16 keys and values, both products on the tile unit (TDPBF16PS),
// softmax on the vectors. Or f16, as sums of two bf16 (amx_layout.hpp), of which all four products are made.
//
// It computes the transposed tile as the wide unit does, a block of 32 keys at a time: St = K Qt, weights, Ot += Vt Pt. While the
// vectors make the weights of block j, the tile unit is given the scores of block j + 1, a piece every 8 keys; the outputs of 16
// blocks follow together, so a tile of keys should be long. What score() and absorb() find out is therefore done in accumulate().
// Decision: L1 decides, not the two units' own speed. Outputs of 8 blocks beside the weights of the next 8 need the weights
// twice, and all of it at once: 32 rows take Q 8, S 8, P 32 and O 16 KB at D = 128. In turn, with keys and values, which are
// loaded past L1, it takes 3 % less time than that, and 6 % less than with no work beside the weights (S=2048, Intel Emerald
// Rapids, g++ 13, 2026-12-01).
// The top that weights are counted from is raised, and o and l shrunk, only when a row's score is 2^8 above it: o lies in memory.
// Each row decides for itself, so that its bits do not depend on the others.
// Weights are rounded to bf16; a row is divided by the sum of its rounded ones, summed in the tile unit's order, so that values
// of 1 give 1. The log-sum-exp takes those before. Memory traffic of 32 rows and a block: K and V once from L2, where the other
// rows find them too; Q, S, P and O stay in L1 and L2. Online softmax: Milakov & Gimelshein 2018,
// arXiv:1805.02867, Alg. 3; tiling: Dao et al. 2022, arXiv:2205.14135.
#pragma once

#include "imbrex/units/amx_rows.hpp"

IMBREX_ISA_BEGIN

// Tiles: amx_tiles, or emulated_tiles on machines without them.
template <class P, class Rule, class Tiles>
class amx_unit {
public:
    static_assert((std::is_same_v<typename P::query, bf16> ||
                   std::is_same_v<typename P::query, f16>)&&std::is_same_v<typename P::score, float>,
                  "imbrex: the AMX unit multiplies bf16, and f16 as sums of two");
    using row_type = row_block<typename P::query, typename P::output>;
    using tile_type = amx_tile;
    using g = amx_geometry;
    static constexpr position kv_step = g::block;

    amx_unit(amx_scratch const& x, Rule const& rule, head_context const& ctx, index head_dim, index head_dim_v,
             score_scale<float> const& scale) noexcept
        : rule_{rule},
          ctx_{ctx},
          parts_{{x.all, x.parts[0], rule, ctx, head_dim, head_dim_v, scale, tiles_},
                 {x.all, x.parts[1], rule, ctx, head_dim, head_dim_v, scale, tiles_},
                 {x.all, x.parts[2], rule, ctx, head_dim, head_dim_v, scale, tiles_},
                 {x.all, x.parts[3], rule, ctx, head_dim, head_dim_v, scale, tiles_}} {}

    position q_first() const noexcept { return parts_[0].q_first(); }
    position q_last() const noexcept { return parts_[count_ - 1].q_last(); }

    void begin(row_type const& r) noexcept {
        count_ = static_cast<int>((r.count + g::max_rows - 1) / g::max_rows);
        for (int i = 0; i < count_; ++i) parts_[i].begin(part_of(r, i));
    }
    void score(tile_type const&, tile_window const& w, coverage seen) noexcept {
        for (int i = 0; i < count_; ++i) {
            tile_window const own{parts_[i].q_first(), parts_[i].q_last(), w.kv_begin, w.kv_end};
            parts_[i].score(own, seen == coverage::full || count_ == 1 ? seen : classify_of(rule_, ctx_, own));
        }
    }
    void absorb() noexcept {}
    void accumulate(tile_type const& tile) noexcept {
        amx_detail::denormals_flushed const scope;
        for (int i = 0; i < count_; ++i) parts_[i].accumulate(tile);
    }
    void finish(row_type const& r) noexcept {
        for (int i = 0; i < count_; ++i) parts_[i].finish(part_of(r, i));
    }

private:
    static row_type part_of(row_type const& r, int i) noexcept {
        return r.part(i * g::max_rows, std::min(g::max_rows, r.count - i * g::max_rows));
    }

    Rule const& rule_;
    head_context const& ctx_;
    Tiles tiles_;
    amx_detail::amx_rows<P, Rule, Tiles> parts_[g::max_parts];
    int count_ = 0;
};

IMBREX_ISA_END
