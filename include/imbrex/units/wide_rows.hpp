// The rows of a wide unit, one per vector lane: which keys of a tile each sees, their maxima, sums and ends. What products are
// computed by is the unit's own.
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
class wide_rows : wide_geometry<typename P::score> {
public:
    using T = typename P::score;
    using row_type = row_block<typename P::query, typename P::output>;
    using geometry = wide_geometry<T>;
    using geometry::max_rows;
    using geometry::W;

    // Rows that come after these: asked for while products are made.
    void expect(row_type const& r) noexcept { ahead_ = {r, head_dim_, head_dim_v_}; }

    position q_first() const noexcept { return static_cast<position>(x_.positions[0]); }
    position q_last() const noexcept { return static_cast<position>(x_.positions[count_ - 1]); }

protected:
    using V = lanes<T>;
    using simd = seam<T>;

    // l_exact: sums of weights for the log-sum-exp; scratch.l, unless weights are rounded before they are summed there.
    wide_rows(wide_scratch<T> const& scratch, T* l_exact, Rule const& rule, head_context const& ctx, index head_dim,
              index head_dim_v, score_scale<T> const& scale) noexcept
        : x_{scratch},
          l_exact_{l_exact},
          head_dim_{head_dim},
          head_dim_v_{head_dim_v},
          scale_{scale},
          rule_{rule},
          ctx_{ctx},
          rules_{scratch, rule, ctx, scale.product} {}

    void begin_rows(row_type const& r) noexcept {
        count_ = r.count;
        vectors_ = static_cast<int>((count_ + W - 1) / W);
        for (index i = 0; i < vectors_ * W; ++i) {
            index const row = std::min(i, count_ - 1);
            x_.positions[i] = static_cast<lane_int<T>>(ctx_.query_offset() + r.token(row));
            x_.heads[i] = static_cast<lane_int<T>>(ctx_.head_first + r.head(row));
        }
        for (int v = 0; v < vectors_; ++v) {
            V(lowest_score<T>).store_aligned(x_.m + v * W);
            V(T(0)).store_aligned(x_.l + v * W);
            V(T(0)).store_aligned(l_exact_ + v * W);
        }
        std::fill_n(x_.alpha, max_rows, T(0));
        fresh_ = true;
    }

    // score(run, m): products of the run's keys and queries, held finite, to s, and their maxima to m.
    template <class F>
    IMBREX_ALWAYS_INLINE void score_runs(tile_window const& w, coverage seen, F const& score) noexcept {
        runs_.find(rule_, ctx_, w, seen, x_.positions, count_);
        kv_begin_ = w.kv_begin;
        if (seen == coverage::partial) seen_.reset(w.kv_end - w.kv_begin);
        std::copy_n(x_.m, vectors_ * W, x_.m_next);
        for (wide_run const& r : runs_) {
            if (r.seen == coverage::full && !changes_scores<Rule>) {
                score(r, x_.m_next);
            } else {
                score_by_rule(r, score);
            }
        }
    }

    // weigh(run, n, alpha): scores of the run, of n vectors (a compile-time constant), to weights, and their sums to l, which
    // alpha shrinks where it is not null.
    template <class F>
    IMBREX_ALWAYS_INLINE void absorb_runs(F const& weigh) noexcept {
        for (int v = 0; v < vectors_; ++v) {
            V const m_next = V::load_aligned(x_.m_next + v * W);
            exp2_of<T>(V::load_aligned(x_.m + v * W) - m_next, scale_.log2e).store_aligned(x_.alpha + v * W);
            m_next.store_aligned(x_.m + v * W);
        }
        first_covers_all_ = !runs_.empty() && runs_.front().vectors == vectors_ && all_seen(runs_.front());
        if (!first_covers_all_) fresh_ ? clear() : shrink();
        for (wide_run const& r : runs_) {
            with_vectors(r.vectors, [&](auto n) { weigh(r, n, shrinks(r) ? x_.alpha : nullptr); });
        }
    }

    // add(run, n, o): adds weights times values of the run, of n vectors (a compile-time constant), to o, which is as told
    // before.
    template <class F>
    IMBREX_ALWAYS_INLINE void accumulate_runs(F const& add) noexcept {
        for (wide_run const* r = runs_.begin(); r != runs_.end();) {
            bool const whole = all_seen(*r);
            sum_before<T> const o{fresh_, shrinks(*r) ? x_.alpha : nullptr};
            wide_run const joined = whole ? joined_from(r) : *r++;
            with_vectors(joined.vectors, [&](auto n) {
                if (whole) {
                    add(joined, n, o);
                } else {
                    seen_.for_each(joined.begin, joined.end, [&](index first, index last) {
                        add(wide_run{first, last, joined.first, joined.vectors, joined.seen}, n, sum_before<T>{});
                    });
                }
            });
            fresh_ = false;
        }
    }

    // To the caller's memory.
    void finish_rows(row_type const& r) noexcept {
        ahead_.ask_for_rest();
        if (fresh_) clear();
        end_rows(r);
        for (int v = 0; v < vectors_; ++v) unpack_outputs(r, v * W, head_dim_v_, x_.o, x_.alpha);
    }

    // Calls f with the number of live vectors as a compile-time constant.
    template <class F>
    static IMBREX_ALWAYS_INLINE void with_vectors(int n, F f) noexcept {
        [&]<int... I>(std::integer_sequence<int, I...>) {
            ((n == I + 1 ? f(std::integral_constant<int, I + 1>{}) : void()), ...);
        }
        (std::make_integer_sequence<int, geometry::max_vectors>{});
    }

    wide_scratch<T> x_;
    T* l_exact_;
    index head_dim_, head_dim_v_;
    score_scale<T> scale_;
    int vectors_ = 0;
    bool fresh_ = true;    // o is 0, whatever its memory holds
    rows_ahead ahead_;

private:
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

    // Scores as the rule has them, some keys at a time, while they are in L1.
    template <class F>
    IMBREX_ALWAYS_INLINE void score_by_rule(wide_run const& r, F const& score) noexcept {
        constexpr index at_once = 2 * geometry::segment;
        for (index j = r.begin; j < r.end; j += at_once) {
            wide_run const part{j, std::min(r.end, j + at_once), r.first, r.vectors, r.seen};
            score(part, x_.alpha);    // maxima of no use, as the rule may change them
            rules_.apply(part, kv_begin_, seen_);
        }
    }

    // 1 / l of each row, in alpha; and the log-sum-exp, where it is wanted.
    void end_rows(row_type const& r) noexcept {
        if constexpr (adds_sink<Rule>) {
            for (index i = 0; i < count_; ++i) {
                row_context<position> const ctx{ctx_, static_cast<position>(x_.heads[i])};
                x_.alpha[i] = end_row<T>(rule_, ctx, scale_.natural, x_.m[i], x_.l[i]).inverse;
                if (r.lse == nullptr) continue;
                *r.log_sum_exp(i) = end_row<T>(rule_, ctx, scale_.natural, x_.m[i], l_exact_[i]).log_sum_exp();
            }
        } else {
            for (int v = 0; v < vectors_; ++v) {
                V const l = V::load_aligned(x_.l + v * W);
                V(xsimd::select(l == V(T(0)), V(T(0)), V(T(1)) / l)).store_aligned(x_.alpha + v * W);
            }
            if (r.lse == nullptr) return;
            for (index i = 0; i < count_; ++i) {
                *r.log_sum_exp(i) = row_end<T>::of(scale_.natural, x_.m[i], l_exact_[i]).log_sum_exp();
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
            shrink(x_.l + v * W, alpha);
            if (l_exact_ != x_.l) shrink(l_exact_ + v * W, alpha);
            for (index d = 0; d < head_dim_v_; ++d) shrink(x_.o + d * max_rows + v * W, alpha);
        }
    }
    static IMBREX_ALWAYS_INLINE void shrink(T* p, V alpha) noexcept { (V::load_aligned(p) * alpha).store_aligned(p); }

    Rule const& rule_;
    head_context const& ctx_;
    index count_ = 0;
    index kv_begin_ = 0;
    bool first_covers_all_ = false;
    wide_runs<T> runs_;
    wide_rule_pass<T, Rule> rules_;
    seen_keys seen_;
};

IMBREX_ISA_END
