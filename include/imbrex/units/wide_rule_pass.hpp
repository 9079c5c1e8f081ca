// The wide unit's scores as a rule has them: a pass over products that have just been made, while they are in L1.
//
// Decision: a pass of its own. Inlined where the products are made, a rule stands in 110 places of each unit, which cost g++ 12
// up to minutes a rule, where this costs less than a second; it gained 1 to 2 points of the FMA peak at most (AMD Zen 4,
// 2026-11-30).
#pragma once

#include <algorithm>

#include "imbrex/units/seen_keys.hpp"
#include "imbrex/units/wide_layout.hpp"
#include "imbrex/units/wide_runs.hpp"

IMBREX_ISA_BEGIN

// RowStride: of scores, from key to key.
template <class T, class Rule, index RowStride = wide_geometry<T>::max_rows>
class wide_rule_pass {
public:
    wide_rule_pass(wide_scratch<T> const& scratch, Rule const& rule, head_context const& ctx, T product_scale) noexcept
        : x_{scratch}, rule_{rule}, ctx_{ctx}, product_scale_{product_scale} {}

    // Products of the run, in s, become scores, and m_next their maxima. Tells `seen`, where the run is partial, which keys are.
    void apply(wide_run const& r, index kv_begin, seen_keys& seen) const noexcept {
        if (r.seen == coverage::full) {
            apply_by_heads<coverage::full>(r, kv_begin, seen);
        } else {
            apply_by_heads<coverage::partial>(r, kv_begin, seen);
        }
    }

private:
    using V = lanes<T>;
    using I = lanes<lane_int<T>>;
    static constexpr int W = lane_count<T>;
    static constexpr index max_rows = RowStride;
    static constexpr bool stages = staged_parts<Rule> == 1;

    // How the rows' heads reach a rule: as a number where all rows of the tile have one head.
    enum class heads { one, many };

    template <coverage Seen>
    void apply_by_heads(wide_run const& r, index kv_begin, seen_keys& seen) const noexcept {
        if (ctx_.head_count == 1) {
            run<Seen, heads::one>(r, kv_begin, seen);
        } else {
            run<Seen, heads::many>(r, kv_begin, seen);
        }
    }

    template <coverage Seen, heads H>
    IMBREX_NOINLINE void run(wide_run const& r, index kv_begin, seen_keys& seen) const noexcept {
        if constexpr (Seen == coverage::partial || changes_scores<Rule>) {    // else the rule has no say
            alignas(64) array_of<T, stages ? W * W : 1> staged;
            for (index at = r.first * W; at < (r.first + r.vectors) * W; at += W) {
                V m = V::load_aligned(x_.m_next + at);
                for (index j = r.begin; j < r.end; ++j) {
                    if constexpr (stages) {
                        if ((j - r.begin) % W == 0) stage_rows(at, kv_begin + j, std::min<index>(W, r.end - j), staged);
                    }
                    T* const s = x_.s + j * max_rows + at;
                    V const x = ruled<Seen, H>(V::load_aligned(s), static_cast<position>(kv_begin + j), at,
                                               stages ? staged + (j - r.begin) % W * W : nullptr);
                    x.store_aligned(s);
                    m = seam<T>::max(m, x);
                    if constexpr (Seen == coverage::partial) seen.add(j, !xsimd::all(x == hidden_score<T>()));
                }
                m.store_aligned(x_.m_next + at);
            }
        }
    }

    // The product of the queries from row `at` with the key at position kv, as the rule has it.
    template <coverage Seen, heads H>
    IMBREX_ALWAYS_INLINE V ruled(V product, position kv, index at, T const* staged) const noexcept {
        I const q = I::load_aligned(x_.positions + at), key(static_cast<lane_int<T>>(kv));
        if constexpr (H == heads::one) {
            row_context const ctx{ctx_, ctx_.head_first, staged};
            return ruled_score<T, Seen>(rule_, ctx, product_scale_, product, q, key);
        } else {
            row_context const ctx{ctx_, I::load_aligned(x_.heads + at), staged};
            return ruled_score<T, Seen>(rule_, ctx, product_scale_, product, q, key);
        }
    }

    // What the rule has for the queries from row `at` and n keys from kv on, transposed as their scores are: staged[key][query].
    void stage_rows(index at, index kv, index n, T* staged) const noexcept {
        array_of<V, W> block;
        for (int i = 0; i < W; ++i) {
            row_context<position> const ctx{ctx_, static_cast<position>(x_.heads[at + i])};
            block[i] = staged_row<V>(rule_, ctx, static_cast<position>(x_.positions[at + i]), static_cast<position>(kv),
                                     static_cast<int>(n));
        }
        seam<T>::transpose(block);
        for (index i = 0; i < n; ++i) block[i].store_aligned(staged + i * W);
    }

    wide_scratch<T> x_;
    Rule const& rule_;
    head_context const& ctx_;
    T product_scale_;
};

IMBREX_ISA_END
