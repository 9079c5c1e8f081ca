// THE loop: exact attention of one tile of query rows over one kv head, a tile of keys at a time.
// FlashAttention-2's order (Dao 2023, arXiv:2307.08691, Alg. 1): o is normalised once, at the end, by the unit's finish.
//
// Several kv heads, each with its rows, go through it together where they lie side by side in memory, which is then read in the
// order it lies in. Each head is computed as it would be alone, to the bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "imbrex/observer.hpp"
#include "imbrex/units/unit.hpp"

IMBREX_ISA_BEGIN

// Tiles begin a multiple of so many keys after the first that is there.
template <class Unit>
inline constexpr position kv_step_of = 1;
template <class Unit>
    requires requires { Unit::kv_step; }
inline constexpr position kv_step_of<Unit> = Unit::kv_step;

// How rows are asked for ahead: those in order, and those that lie apart, which the hardware's prefetchers do not foresee.
enum class reading { as_it_comes, in_order_ahead, apart_ahead };

// Of rows in order. Decision: nothing is asked for, as it costs a tenth of the bandwidth and more (AMD Zen 4); but where
// prefetchers leave half of it unused: 32/8 heads, D=128, one thread, GB/s of 15 to 20 that a bare read gets: f32 9.0 -> 14.8,
// bf16 6.1 -> 10.2; 16 or 8 rows ahead 9.7 and 8.3 (Intel Emerald Rapids, g++ 12 -O3 -march=sapphirerapids, 2026-12-01).
#if defined(IMBREX_ON_AMX_CORES)
inline constexpr reading of_rows_in_order = reading::in_order_ahead;
#else
inline constexpr reading of_rows_in_order = reading::as_it_comes;
#endif

// Keys of a head's tile from one on, asked for so many at a time (rows_to_come); or none.
template <class Pass>
struct block_to_come {
    Pass const* head = nullptr;
    index first = 0;
    index at_a_time = 1;

    auto const* keys() const noexcept { return head == nullptr ? nullptr : &head->tile.keys; }
    auto const* values() const noexcept { return head == nullptr ? nullptr : &head->tile.values; }
    index last() const noexcept { return head == nullptr ? 0 : head->tile_keys(); }
};

// One kv head and its rows, on their way through the loop.
template <attention_unit Unit, class Head>
struct head_pass {
    Unit& unit;
    typename Unit::row_type rows;
    Head kv;
    head_context const& ctx;

    kv_range keys{};         // that any row sees
    tile_window window{};    // the tile of them at hand
    coverage seen = coverage::none;
    decltype(std::declval<Head const&>().tile(0, 0)) tile{};
    tile_counts counts{};

    // Returns how many tiles the keys of `part` are.
    template <score_rule Rule>
    index begin(kv_range part, Rule const& rule, index kv_cols) noexcept {
        unit.begin(rows);    // q packed; m, l, o reset
        keys = kv_bounds_of(rule, ctx, unit.q_first(), unit.q_last());
        position const first = std::max(kv.held_from, part.begin);
        keys.begin = std::max(keys.begin, first);
        keys.begin -= (keys.begin - first) % kv_step_of<Unit>;
        keys.end = std::min(keys.end, part.end);
        return keys.begin < keys.end ? (keys.end - keys.begin + kv_cols - 1) / kv_cols : 0;
    }
    template <score_rule Rule>
    void enter(index number, Rule const& rule, index kv_cols) noexcept {
        index const first = keys.begin + number * kv_cols, last = std::min<index>(keys.end, first + kv_cols);
        window = {unit.q_first(), unit.q_last(), static_cast<position>(first), static_cast<position>(last)};
        seen = first < last ? classify_of(rule, ctx, window) : coverage::none;
        if (seen == coverage::none) return;
        ++(seen == coverage::full ? counts.full : counts.partial);
        tile = kv.tile(first, last);
    }
    static constexpr bool reads_blocks = block_unit<Unit>;
    index keys_of_block(index wanted, index all) const noexcept {
        if constexpr (block_unit<Unit>) return std::max(wanted, unit.least_block());
        return all;
    }
    index tile_keys() const noexcept { return seen == coverage::none ? 0 : window.kv_end - window.kv_begin; }

    // `then` is what is read next.
    void score(key_span some, block_to_come<head_pass> const& then) noexcept {
        if constexpr (block_unit<Unit>)
            unit.score(tile, window, seen, some, {then.keys(), then.first, then.last(), then.at_a_time});
        else
            unit.score(tile, window, seen);
    }
    void accumulate(key_span some, block_to_come<head_pass> const& then) noexcept {
        if constexpr (block_unit<Unit>)
            unit.accumulate(tile, some, {then.values(), then.first, then.last(), then.at_a_time});
        else
            unit.accumulate(tile);
    }
};

// Whether keys of one token lie nearer to each other than those of one head. Only units that read in blocks care.
template <class Pass>
bool heads_lie_between_tokens(std::span<Pass> heads) noexcept {
    if constexpr (Pass::reads_blocks) {
        if (heads.size() < 2 || heads[0].tile_keys() < 2 || heads[1].tile_keys() < 2) return false;
        auto const at = [&](index head, index key) {
            return reinterpret_cast<std::intptr_t>(heads[static_cast<std::size_t>(head)].tile.keys.row(key));
        };
        return std::abs(at(1, 0) - at(0, 0)) < std::abs(at(0, 1) - at(0, 0));
    } else {
        return false;
    }
}

// f(head, some of its tile's keys, what is read next): blocks of each head in turn, in about the order they lie in; of a head
// alone, the whole tile.
//
// Decision: where the heads of a token lie side by side (BSHD, pages of one token), blocks of 16 keys, and a head's next block is
// asked for, 8 rows at a time; where the tokens of a head do (pages [pages, heads, page, dim]), blocks of 32, and the next head's
// block, a row with each row. GB/s on 4 KB and huge pages: BSHD 16.5 and 17.0, the other way 13.5 and 14.0; pages of 16 tokens
// 18.6 and 21.0, the other way 13.7 and 15.9. One head at a time: 9.0 and 10.5, and 10.5 and 12.9. Dense: 21 and 27 (f32, 32/8
// heads, D=128, AMD Zen 4, g++ 12, 2026-12-01).
template <class Pass, class F>
IMBREX_ALWAYS_INLINE void side_by_side(std::span<Pass> heads, reading how, F const& f) noexcept {
    constexpr index rows_ahead = 16, burst = 8, rows_ahead_in_order = 32;
    index keys = 0;
    for (auto const& h : heads) keys = std::max(keys, h.tile_keys());
    bool const between = heads_lie_between_tokens(heads);
    index const block = heads.size() == 1 ? keys : heads[0].keys_of_block(between ? 16 : 32, keys);
    for (index first = 0; first < keys; first += block) {
        for (std::size_t i = 0; i < heads.size(); ++i) {
            Pass& h = heads[i];
            if (first >= h.tile_keys()) continue;
            block_to_come<Pass> then;
            if (how == reading::in_order_ahead) {
                then = {&h, first + rows_ahead_in_order, 1};
            } else if (how == reading::apart_ahead) {
                bool const last = i + 1 == heads.size();
                if (heads.size() == 1)
                    then = {&h, rows_ahead, burst};
                else if (between)
                    then = {&h, first + block, burst};
                else
                    then = {&heads[last ? 0 : i + 1], last ? first + block : first, 1};
            }
            f(h, key_span{first, std::min(first + block, h.tile_keys())}, then);
        }
    }
}

// The keys of `part`, or of all of them; what becomes of the rows is left in the units.
template <attention_unit Unit, class Head, score_rule Rule, tile_observer Observer>
void attend(std::span<head_pass<Unit, Head>> heads, kv_range part, Rule const& rule, index kv_cols, reading how,
            Observer& observer) noexcept {
    index tiles = 0;
    for (auto& h : heads) tiles = std::max(tiles, h.begin(part, rule, kv_cols));
    for (index i = 0; i < tiles; ++i) {
        for (auto& h : heads) h.enter(i, rule, kv_cols);
        side_by_side(heads, how, [](auto& h, auto const&... some) { h.score(some...); });    // s = q kT, masked; next m
        for (auto& h : heads) {
            if (h.seen != coverage::none) h.unit.absorb();    // p = e^(scale (s - m)); l
        }
        side_by_side(heads, how,
                     [](auto& h, auto const&... some) { h.accumulate(some...); });    // o = e^(scale (m_old - m)) o + p v
    }
    if constexpr (observes<Observer>) {
        for (auto& h : heads) {
            h.counts.skipped = (part.end - part.begin + kv_cols - 1) / kv_cols - h.counts.full - h.counts.partial;
            observer.item(h.counts);
        }
    }
}

// One head alone.
template <attention_unit Unit, class Head, score_rule Rule, tile_observer Observer>
void attend(Unit& unit, typename Unit::row_type const& rows, Head const& kv, kv_range part, Rule const& rule,
            head_context const& ctx, index kv_cols, Observer& observer) noexcept {
    head_pass<Unit, Head> one{unit, rows, kv, ctx};
    attend(std::span{&one, 1}, part, rule, kv_cols, reading::as_it_comes, observer);
}

IMBREX_ISA_END
