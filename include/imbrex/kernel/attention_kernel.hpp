// THE loop: exact attention of one tile of query rows over one kv head, a tile of keys at a time.
// FlashAttention-2's order (Dao 2023, arXiv:2307.08691, Alg. 1): o is normalised once, at the end, by the unit's finish.
#pragma once

#include <algorithm>

#include "imbrex/observer.hpp"
#include "imbrex/units/unit.hpp"

IMBREX_ISA_BEGIN

// Tiles begin a multiple of so many keys after the first that is there.
template <class Unit>
inline constexpr position kv_step_of = 1;
template <class Unit>
    requires requires { Unit::kv_step; }
inline constexpr position kv_step_of<Unit> = Unit::kv_step;

// The keys of `part`, or of all of them; what becomes of the rows is left in the unit.
template <attention_unit Unit, class Head, score_rule Rule, tile_observer Observer>
void attend(Unit& unit, typename Unit::row_type const& rows, Head const& kv, kv_range part, Rule const& rule,
            head_context const& ctx, index kv_cols, Observer& observer) noexcept {
    unit.begin(rows);    // q packed; m, l, o reset
    [[maybe_unused]] tile_counts counts;
    kv_range seen_by_any = kv_bounds_of(rule, ctx, unit.q_first(), unit.q_last());
    position const first = std::max(kv.held_from, part.begin);
    seen_by_any.begin = std::max(seen_by_any.begin, first);
    seen_by_any.begin -= (seen_by_any.begin - first) % kv_step_of<Unit>;
    seen_by_any.end = std::min(seen_by_any.end, part.end);
    for (index j = seen_by_any.begin; j < seen_by_any.end; j += kv_cols) {
        index const end = std::min<index>(seen_by_any.end, j + kv_cols);
        tile_window const w{unit.q_first(), unit.q_last(), static_cast<position>(j), static_cast<position>(end)};
        coverage const seen = classify_of(rule, ctx, w);
        if (seen == coverage::none) continue;
        if constexpr (observes<Observer>) ++(seen == coverage::full ? counts.full : counts.partial);
        auto const tile = kv.tile(j, end);
        unit.score(tile, w, seen);    // s = q kT, masked; next m
        unit.absorb();                // p = e^(scale (s - m)); l
        unit.accumulate(tile);        // o = e^(scale (m_old - m)) o + p v
    }
    if constexpr (observes<Observer>) {
        counts.skipped = (part.end - part.begin + kv_cols - 1) / kv_cols - counts.full - counts.partial;
        observer.item(counts);
    }
}

IMBREX_ISA_END
