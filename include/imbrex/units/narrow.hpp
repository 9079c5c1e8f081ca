// The narrow unit: few query rows (decode), lanes along head_dim.
//
// Rows, up to R of them, are taken two at a time: a block of W / 2 keys against two rows fills W accumulators, which one shuffle
// tree turns into one vector of scores. K and V are read once from memory, row by row, in the element type they are stored in,
// and widened in registers; the passes for the other rows find the block in L1. Memory traffic a tile: kv_cols x (head_dim +
// head_dim_v) elements of kv; the rest stays in L1.
//
// Decision: two rows a pass, because what streams best is a first touch with little work per cache line: the out-of-order
// window then spans enough lines to keep memory busy. Four rows a pass with any software prefetch reach 50-66 % of the read
// bandwidth, two rows without reach 85-95 % (f32, 4 rows, D=128, 4 KB blocks, AMD Zen 4, g++ 12, 2026-11-30).
//
// Decision: a rule has a pass of its own over products, as in the wide unit (wide_rule_pass.hpp). Inlined where products are
// made, it had them compiled anew: with one unit for any number of rows, a second rule costs g++ 12 0.9 s, which was 6 (f32,
// 2026-12-01).
#pragma once

#include "imbrex/units/narrow_products.hpp"

IMBREX_ISA_BEGIN

template <class P, class Rule, int R, row_set KeyRows = rows<typename P::key>, row_set ValueRows = rows<typename P::value>>
class narrow_unit : public narrow_products<typename P::score, R, KeyRows, ValueRows, narrow_pairs_of<P>> {
    using base = narrow_products<typename P::score, R, KeyRows, ValueRows, narrow_pairs_of<P>>;

public:
    using T = typename P::score;
    using E = typename ValueRows::element;
    using row_type = row_block<typename P::query, typename P::output>;
    using base::accumulate;
    using base::W;
    using typename base::tile_type;

    narrow_unit(narrow_scratch<T> const& scratch, Rule const& rule, head_context const& ctx, index head_dim, index head_dim_v,
                score_scale<T> const& scale) noexcept
        : base{scratch, head_dim, head_dim_v, scale}, rule_{rule}, ctx_{ctx} {}

    void begin(row_type const& r) noexcept { this->begin_rows(r, ctx_); }

    void score(tile_type const& tile, tile_window const& w, coverage seen) noexcept {
        score(tile, w, seen, {0, w.kv_end - w.kv_begin}, {});
    }
    void accumulate(tile_type const& tile) noexcept { accumulate(tile, {0, keys_}, {}); }

    IMBREX_NOINLINE void score(tile_type const& tile, tile_window const& w, coverage seen, key_span const& some,
                               rows_to_come<KeyRows> const& then) noexcept {
        if (some.first == 0) {
            this->start_tile(w.kv_end - w.kv_begin);
            seen_ = seen;
            if (seen == coverage::partial) seen_keys_.reset(keys_);
        }
        if (seen == coverage::full && !changes_scores<Rule>) {
            this->multiply_keys(tile, some, then, left_as::scores);
        } else {
            this->multiply_keys(tile, some, then, left_as::products);
            seen == coverage::full ? apply_rule<coverage::full>(w, some) : apply_rule<coverage::partial>(w, some);
        }
        if (some.last == keys_) this->fold_maxima();
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept {
        for (index i = 0; i < count_; ++i) {
            row_context<position> const ctx{ctx_, static_cast<position>(ctx_.head_first + r.head(i))};
            T const m = x_.m[this->lane_of(i)];
            row_end<T> end = end_row<T>(rule_, ctx, scale_.natural, m, x_.l[i]);
            if constexpr (base::rounds_weights) {
                value_pairs<E>::unpack(x_.o + i * o_stride_, head_dim_v_, end.inverse, r.output(i));
                if (r.lse != nullptr) end = end_row<T>(rule_, ctx, scale_.natural, m, x_.l_exact[i]);
            } else {
                unpack_output<E>(x_.o + i * o_stride_, head_dim_v_, end.inverse, r.output(i));
            }
            if (r.lse != nullptr) *r.log_sum_exp(i) = end.log_sum_exp();
        }
    }

private:
    using base::at_once_;
    using base::count_;
    using base::head_dim_v_;
    using base::key_of_lane_;
    using base::keys_;
    using base::o_stride_;
    using base::passes_;
    using base::s_stride_;
    using base::scale_;
    using base::seen_;
    using base::seen_keys_;
    using base::x_;
    using typename base::I;
    using typename base::left_as;
    using typename base::simd;
    using typename base::V;

    // Products in s become scores as the rule has them, and m_next their maxima; -inf in the lanes beyond the keys.
    template <coverage Seen>
    IMBREX_NOINLINE void apply_rule(tile_window const& w, key_span const& some) noexcept {
        I const key_of_lane = I::load_aligned(key_of_lane_);
        for (int p = 0; p < passes_; ++p) {
            row_context<I> const ctx{ctx_, I::load_aligned(x_.heads + p * W)};
            I const q = I::load_aligned(x_.positions + p * W);
            V m = V::load_aligned(x_.m_next + p * W);
            for (index j = some.first; j < some.last; j += this->keys_of_vector()) {
                int const n = static_cast<int>(std::min(some.last - j, this->keys_of_vector()));
                I const last(static_cast<lane_int<T>>(n - 1));    // lanes beyond repeat it
                I const kv = I(static_cast<lane_int<T>>(w.kv_begin + j)) + xsimd::select(key_of_lane < last, key_of_lane, last);
                T* const at = x_.s + p * s_stride_ + j * at_once_;
                V s = ruled_score<T, Seen>(rule_, ctx, scale_.product, V::load_aligned(at), q, kv);
                s = xsimd::select(as_score_mask<T>(this->are_there(n)), s, hidden_score<T>());
                s.store_aligned(at);
                m = simd::max(m, s);
                if constexpr (Seen == coverage::partial) note_seen(s, j, n);
            }
            m.store_aligned(x_.m_next + p * W);
        }
    }

    void note_seen(V s, index j, int n) noexcept {
        alignas(64) array_of<T, W> lane;
        s.store_aligned(lane);
        for (int key = 0; key < n; ++key) {
            bool seen = false;
            for (int r = 0; r < at_once_; ++r) seen |= !(lane[key * at_once_ + r] == -std::numeric_limits<T>::infinity());
            seen_keys_.add(j + key, seen);
        }
    }

    Rule const& rule_;
    head_context const& ctx_;
};

IMBREX_ISA_END
