// 32 rows of the AMX unit, which take turns with others at a tile of keys (amx_wide.hpp tells how).
#pragma once

#include <algorithm>

#include "imbrex/units/amx_products.hpp"
#include "imbrex/units/amx_softmax.hpp"
#include "imbrex/units/seen_keys.hpp"
#include "imbrex/units/wide_rule_pass.hpp"

IMBREX_ISA_BEGIN

namespace amx_detail {

template <class P, class Rule, class Tiles>
class amx_rows {
public:
    using T = float;
    using row_type = row_block<typename P::query, typename P::output>;
    using g = amx_geometry;

    amx_rows(amx_scratch::shared const& all, amx_scratch::part const& own, Rule const& rule, head_context const& ctx,
             index head_dim, index head_dim_v, score_scale<T> const& scale, Tiles& tiles) noexcept
        : all_{all},
          x_{own},
          rule_{rule},
          ctx_{ctx},
          head_dim_{head_dim},
          head_dim_v_{head_dim_v},
          steps_{static_cast<int>(g::padded(head_dim) / g::step)},
          slices_{static_cast<int>(g::padded(head_dim_v) / g::step)},
          scale_{scale},
          weights_{scale.log2e},
          tiles_{tiles} {}

    position q_first() const noexcept { return x_.positions[0]; }
    position q_last() const noexcept { return x_.positions[count_ - 1]; }

    IMBREX_NOINLINE void begin(row_type const& r) noexcept {
        count_ = r.count;
        halves_ = count_ > 16 ? 2 : 1;
        wants_exact_sum_ = r.lse != nullptr;
        for (index i = 0; i < g::max_rows; ++i) {
            index const row = std::min(i, count_ - 1);
            x_.positions[i] = static_cast<lane_int<T>>(ctx_.query_offset() + r.token(row));
            x_.heads[i] = static_cast<lane_int<T>>(ctx_.head_first + r.head(row));
        }
        pack_amx_queries(r, head_dim_, scale_.query, x_.q);
        std::fill_n(x_.base, g::max_rows, T(0));
        std::fill_n(x_.top, g::max_rows, T(0));
        std::fill_n(x_.limit, g::max_rows, nothing);
        std::fill_n(x_.l, g::max_rows, T(0));
        std::fill_n(x_.l_exact, g::max_rows, T(0));
        std::fill_n(x_.o, g::padded(head_dim_v_) * g::max_rows, T(0));
        fresh_ = true;
        far_ = false;
    }

    // Which blocks of the tile some row sees, and how.
    IMBREX_NOINLINE void score(tile_window const& w, coverage seen) noexcept {
        kv_begin_ = w.kv_begin;
        count_blocks_ = 0;
        index const keys = w.kv_end - w.kv_begin;
        for (index j = 0; j < keys; j += g::block) {
            index const end = std::min(keys, j + g::block);
            coverage c = seen;
            if (seen == coverage::partial) {
                c = classify_of(
                    rule_, ctx_,
                    {q_first(), q_last(), static_cast<position>(w.kv_begin + j), static_cast<position>(w.kv_begin + end)});
            }
            if (c != coverage::none) blocks_[count_blocks_++] = {j, end, c};
        }
    }

    IMBREX_NOINLINE void accumulate(amx_tile const& tile) noexcept {
        if (count_blocks_ == 0) return;
        work_type first{halves_};
        plan_scores(first, tile, 0);
        first.finish(tiles_);
        for (int b = 0; b < count_blocks_; ++b) {
            wants_exact_sum_ ? step<row_sums::exact_too>(tile, b) : step<row_sums::rounded>(tile, b);
        }
        add_values();
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept {
        for (index at = 0; at < g::max_rows; at += W) {
            V const l = V::load_aligned(x_.l + at);
            V(xsimd::select(l == V(T(0)), V(T(0)), V(T(1)) / l)).store_aligned(all_.alpha + at);
        }
        if (adds_sink<Rule> || r.lse != nullptr) end_rows(r);
        unpack_amx_outputs(r, head_dim_v_, x_.o, all_.alpha);
    }

private:
    using V = lanes<T>;
    using row_sums = amx_detail::row_sums;
    static constexpr int limbs = amx_limbs<typename P::query>, group = g::group / limbs;
    using work_type = amx_products<Tiles, limbs>;
    static constexpr T nothing = -std::numeric_limits<T>::infinity();
    static constexpr int W = lane_count<T>;

    // Keys [begin, end) of the tile, from the first of a block.
    struct block {
        index begin, end;
        coverage seen;
    };

    // What takes each row's own arithmetic: sinks, and the log-sum-exp.
    void end_rows(row_type const& r) noexcept {
        for (index i = 0; i < count_; ++i) {
            row_context<position> const ctx{ctx_, static_cast<position>(x_.heads[i])};
            double const top = scale_.natural * x_.base[i] + x_.top[i] * 0.69314718055994530942;
            if constexpr (adds_sink<Rule>)
                all_.alpha[i] = static_cast<T>(end_row<double>(rule_, ctx, 1.0, top, double{x_.l[i]}).inverse);
            if (r.lse != nullptr) *r.log_sum_exp(i) = end_row<double>(rule_, ctx, 1.0, top, double{x_.l_exact[i]}).log_sum_exp();
        }
    }

    T* scores_of(int b) const noexcept { return all_.s[b % 2]; }

    void plan_scores(work_type& work, amx_tile const& tile, int b) noexcept {
        bf16 const* const keys = tile.keys + blocks_[b].begin / g::block * g::key_block(head_dim_, limbs);
        work.plan_scores(keys, x_.q, steps_, scores_of(b));
    }
    // The weights that are there meet their values.
    IMBREX_NOINLINE void add_values() noexcept {
        work_type work{halves_};
        work.plan_values(values_, weighed_, all_.p, x_.o, slices_);
        work.finish(tiles_);
        weighed_ = 0;
    }

    // The weights of block b, and beside them the scores of the next.
    template <row_sums Sums>
    void step(amx_tile const& tile, int b) noexcept {
        bool const all_seen = find_scores(b);
        raise_tops();
        if (far_) amx_detail::count_from(x_.base, scores_of(b));
        work_type work{halves_};
        if (b + 1 < count_blocks_) plan_scores(work, tile, b + 1);
        int const pieces = work.pieces(), parts = 4 * halves_;
        T const* const s = scores_of(b);
        bf16* const p = all_.p + weighed_ * limbs * 2 * g::tile;
        for (int half = 0, part = 0; half < halves_; ++half) {
            amx_detail::weight_sums<Sums, limbs> sums{weights_, x_.top + 16 * half};
            for (int key = 0; key < g::block; key += 8) {
                work.advance(tiles_, ++part * pieces / parts);
                sums.weigh(s + 16 * half, p + half * g::tile, key);
            }
            sums.add_to(x_.l + 16 * half, x_.l_exact + 16 * half);
        }
        values_[weighed_++] = all_seen ? value_block(tile, b) : seen_values(tile, b);
        if (weighed_ == group || !all_seen) add_values();
        fresh_ = false;
    }

    // Products of block b become scores, and m_next their maxima. Whether each of its keys is seen by some row, or is beyond the
    // last.
    bool find_scores(int b) noexcept {
        block const& k = blocks_[b];
        T* const s = scores_of(b);
        index const keys = k.end - k.begin;
        if (keys < g::block) amx_detail::hide(s, keys, g::block);
        seen_.reset(g::block);
        if (k.seen == coverage::full && !changes_scores<Rule>) {
            if (!amx_detail::find_maxima(s, halves_, all_.m_next)) {
                amx_detail::hold_finite(s, 0, keys);
                amx_detail::find_maxima(s, halves_, all_.m_next);
            }
            return keys == g::block || ends_there(k);
        }
        std::fill_n(all_.m_next, g::max_rows, nothing);
        wide_scratch<T> x{};
        x.s = s, x.m_next = all_.m_next, x.positions = x_.positions, x.heads = x_.heads;
        wide_rule_pass<T, Rule, g::max_rows> const pass{x, rule_, ctx_, scale_.product};
        pass.apply({0, keys, 0, halves_ * 16 / W, k.seen}, kv_begin_ + k.begin, seen_);
        if constexpr (changes_scores<Rule>) amx_detail::quiet(s);
        bool const each = k.seen == coverage::full || seen_.all(0, keys);
        return each && (keys == g::block || ends_there(k));
    }
    // Keys beyond the last are zeros in a packed block.
    bool ends_there(block const& k) const noexcept { return kv_begin_ + k.end == ctx_.kv_len; }

    bf16 const* value_block(amx_tile const& tile, int b) const noexcept {
        return tile.values + blocks_[b].begin / g::block * g::value_block(head_dim_v_, limbs);
    }
    // The same with zeros for keys that no row sees: 0 x NaN would be NaN.
    bf16 const* seen_values(amx_tile const& tile, int b) noexcept {
        block const& k = blocks_[b];
        index const n = g::value_block(head_dim_v_, limbs);
        bf16* const to = all_.values;
        std::copy_n(value_block(tile, b), n, to);
        for (index j = 0; j < g::block; ++j) {
            bool const seen = j < k.end - k.begin && (k.seen == coverage::full || seen_.all(j, j + 1));
            if (seen) continue;
            for (index d = 0; d < n; d += g::block) to[d + j] = bf16::from_bits(0);
        }
        return to;
    }

    // Raises the tops of rows that have outgrown theirs. What the tile unit has yet to do is done before.
    void raise_tops() noexcept {
        bool outgrown = false;
        for (index i = 0; i < 16 * halves_; i += W) {
            outgrown = outgrown || xsimd::any(V::load_aligned(all_.m_next + i) > V::load_aligned(x_.limit + i));
        }
        if (outgrown) raise();
    }
    IMBREX_NOINLINE void raise() noexcept {
        add_values();
        for (index i = 0; i < 16 * halves_; ++i) all_.alpha[i] = all_.m_next[i] > x_.limit[i] ? raised(i) : T(1);
        if (fresh_) return;
        for (index i = 0; i < 16 * halves_; i += W) {
            V const alpha = V::load_aligned(all_.alpha + i);
            for (T* const l : {x_.l, x_.l_exact}) (V::load_aligned(l + i) * alpha).store_aligned(l + i);
            for (index d = 0; d < head_dim_v_; ++d) {
                T* const o = x_.o + d * g::max_rows + i;
                (V::load_aligned(o) * alpha).store_aligned(o);
            }
        }
    }
    // Gives a row a new top; the factor by which what it has must shrink.
    T raised(index row) noexcept {
        using tops = amx_detail::row_tops;
        T const m = all_.m_next[row], c = weights_.c;
        bool const is_far = std::abs(m * c) > tops::far, first = x_.limit[row] == nothing;
        T const base = is_far ? m : T(0), top = is_far ? T(0) : std::nearbyint(m * c);
        double const fall = (double{x_.base[row]} - double{base}) * double{c} + (double{x_.top[row]} - double{top});
        far_ = far_ || is_far;
        x_.base[row] = base, x_.top[row] = top;
        x_.limit[row] = base + (top + tops::slack) * weights_.inverse;
        return first ? T(0) : static_cast<T>(std::exp2(fall));
    }

    amx_scratch::shared all_;
    amx_scratch::part x_;
    Rule const& rule_;
    head_context const& ctx_;
    index head_dim_, head_dim_v_;
    int steps_, slices_;    // of 32 numbers of head_dim and head_dim_v
    score_scale<T> scale_;
    amx_detail::weight_scale weights_;
    index count_ = 0;
    int halves_ = 2;
    bool wants_exact_sum_ = false;
    bool fresh_ = true;    // no weights yet
    bool far_ = false;     // some row has a base
    index kv_begin_ = 0;
    int count_blocks_ = 0;
    block blocks_[max_kv_cols / g::block];
    array_of<bf16 const*, group> values_;    // of blocks that have weights
    int weighed_ = 0;
    seen_keys seen_;
    Tiles& tiles_;
};

}    // namespace amx_detail

IMBREX_ISA_END
