// One checked call: what its work items do (call_loop.hpp hands them out). Dense tensors and packed ones go the same way; a dense
// batch is sequences of equal length.
#pragma once

#include <cmath>
#include <limits>

#include "imbrex/call_loop.hpp"
#include "imbrex/kernel/attention_kernel.hpp"
#include "imbrex/kv/dense.hpp"
#include "imbrex/options.hpp"

IMBREX_ISA_BEGIN

namespace call_detail {

// The tensors of a call in the library's own storage types.
template <precision_policy P, kv_source Source = dense_source<typename P::key, typename P::value>>
struct operands {
    tensor_view<typename P::query const> q;
    Source kv;
    tensor_view<typename P::output> out;
    packed_starts q_starts{};

    sequence_side queries() const noexcept { return {q.shape, q_starts}; }
};

// A checked call, ready to run. An observer is asked for by reference, so that it does not have the kernels compiled again.
template <precision_policy P, kv_source Source, score_rule Rule>
class attention_call : public call_loop {
public:
    using T = typename P::score;

    attention_call(plan const& p, operands<P, Source> const& x, Rule const& rule, options const& o, observer_ref observer,
                   index workers, std::byte* memory) noexcept
        : call_loop{p,
                    x.queries(),
                    x.kv.sequences(),
                    x.kv.lies_apart() ? work_order::kv_rows::apart : work_order::kv_rows::together,
                    o.executor,
                    workers,
                    memory,
                    {&rule,
                     [](void const* of, head_context const& ctx, position first, position last) {
                         return kv_bounds_of(*static_cast<Rule const*>(of), ctx, first, last);
                     },
                     this, [](void const* call, auto... at) { of(call).prepare(at...); },
                     [](void const* call, index wave, work_item const& item, work_item const* then, index slot) {
                         of(call).attend_item(wave, item, then, slot);
                     }}},
          x_{x},
          lse_{o.lse},
          rule_{rule},
          observer_{observer},
          scale_{o.scale.value_or(1.0 / std::sqrt(static_cast<double>(x.q.shape.head_dim))),
                 changes_scores<Rule> ? scale_applies::to_products : scale_applies::to_differences} {}

private:
    using Q = typename P::query;
    using key_rows = typename Source::key_rows;
    using value_rows = typename Source::value_rows;
    using O = typename P::output;
    static constexpr index short_item_elements = 8192;    // of keys and values: they fit L1

    static attention_call const& of(void const* call) noexcept { return *static_cast<attention_call const*>(call); }

    kv_head<key_rows, value_rows> head_at(placed_head const& at) const noexcept { return x_.kv.head(at.sequence, at.kv_head); }

    // Those of a wave lie in slots as long as the plan's longest sequence.
    template <class Family>
    auto packed_head(index in_wave, kv_head<key_rows, value_rows> const& from, index kv_tokens) const noexcept {
        kv_layout const layout =
            plan_.shape.layout == kv_layout::strided && !x_.kv.lies_apart() ? kv_layout::contiguous : plan_.shape.layout;
        return Family::packed::of(from, {from.held_from, static_cast<position>(kv_tokens)}, plan_.shape, layout,
                                  memory_.copies + in_wave * plan_.copy_bytes);
    }

    // Packs copy_rows tokens of a kv head, from the row-th that is there on: what some query of the sequence may see of them.
    void prepare(index wave, index place, index row) const noexcept {
        auto const at = order_.head(place);
        auto const ctx = context_of(at);
        auto const from = head_at(at);
        kv_range const seen = seen_in(ctx);
        index const begin = from.held_from + row, end = std::min<index>({begin + copy_rows, ctx.kv_len, seen.end});
        if (begin >= end || seen.begin >= begin + copy_rows) return;
        wide_families<P>::with(plan_.wide, [&](auto family) {
            packed_head<decltype(family)>(place - wave, from, ctx.kv_len)
                .pack(from, {static_cast<position>(begin), static_cast<position>(end)});
        });
    }

    void attend_item(index wave, work_item const& item, work_item const* then, index slot) const noexcept {
        placed_head const& at = item.head;
        head_context const ctx = context_of(at);
        auto const rows = rows_of(item);
        index const few = plan_.narrow_rows_of(group_ * ctx.q_len, rows.count);
        if (then != nullptr) expect_short(*then);
        if (few < rows.count)
            attend_wide(rows.part(0, rows.count - few), then, wave, at, ctx, slot);
        else if (then != nullptr)
            expect_rows(rows_of(*then), x_.kv.head_dim(), x_.kv.head_dim_v());
        if (few > 0) {
            attend_narrow<1>(rows.part(rows.count - few, few), wave, item, memory_.slots + slot * plan_.slot_bytes);
        }
    }

    void attend_wide(row_block<Q, O> const& rows, work_item const* then, index wave, placed_head const& at,
                     head_context const& ctx, index slot) const noexcept {
        wide_families<P>::with(plan_.wide, [&](auto family) {
            using F = decltype(family);
            arena memory{memory_.slots + slot * plan_.slot_bytes};
            index const head_dim = x_.kv.head_dim(), head_dim_v = x_.kv.head_dim_v(), kv_cols = plan_.wide_tiles.kv_cols;
            auto const scratch = F::scratch::lay_out(memory, plan_.shape, plan_.wide_tiles);
            typename F::template unit<Rule> unit{scratch.unit, rule_, ctx, head_dim, head_dim_v, scale_};
            if (then != nullptr) {
                if constexpr (requires { unit.expect(rows); })
                    unit.expect(rows_of(*then));
                else
                    expect_rows(rows_of(*then), head_dim, head_dim_v);
            }
            auto const attend_tiles_of = [&](auto const& kv) {
                imbrex::attend(unit, rows, kv, {0, ctx.kv_len}, rule_, ctx, kv_cols, observer_);
            };
            auto const head = head_at(at);
            if (at.place < order_.copied_heads()) {
                attend_tiles_of(packed_head<F>(at.place - wave, head, ctx.kv_len));
            } else {
                attend_tiles_of(
                    typename F::template tiles<kv_head<key_rows, value_rows>>{head, scratch.tiles, head_dim, head_dim_v});
            }
            unit.finish(rows);    // o / l, log-sum-exp
        });
    }

    // Asks for keys and values of an item that a worker is likely to take next, if it is short: as of many short ones the first
    // touch of each would be a third of the time (windows of 49 tokens, D=32, BSHD: 31.5 -> 24 ms, AMD Zen 4, g++ 12,
    // 2026-11-30).
    void expect_short(work_item const& item) const noexcept {
        if constexpr (in_one_run<Source> && !has_side_scales<key_rows> && !has_side_scales<value_rows>) {
            index const tokens = kv_.of(item.head.sequence).count, head_dim = x_.kv.head_dim(), head_dim_v = x_.kv.head_dim_v();
            if (tokens * (head_dim + head_dim_v) > short_item_elements || item.head.place < order_.copied_heads()) return;
            auto const kv = head_at(item.head);
            prefetch_rows(kv.keys, 0, tokens, head_dim);
            prefetch_rows(kv.values, 0, tokens, head_dim_v);
        }
    }

    // The narrow unit with the fewest rows that hold these, of each kv head of the item.
    template <int R>
    void attend_narrow(row_block<Q, O> const& rows, index wave, work_item const& item, std::byte* memory) const noexcept {
        if constexpr (R < narrow_rows_limit<P>()) {
            if (rows.count > R) return attend_narrow<2 * R>(rows, wave, item, memory);
        }
        arena scratch{memory};
        using tile = kv_tile<key_rows, value_rows>;
        if constexpr (integer_unit<P>) {
            if (x_.kv.has_one_scale_a_row()) {
                return attend_codes<narrow_int8_unit<P, Rule, R, tile>>(scratch, rows, wave, item);
            }
        }
        if constexpr (group_unit<P> && R >= 4) {
            auto const kv = head_at(item.head);
            if (in_groups(kv.keys, x_.kv.head_dim()) && in_groups(kv.values, x_.kv.head_dim_v())) {
                return attend_codes<narrow_group_unit<P, Rule, tile>>(scratch, rows, wave, item);
            }
        }
        attend_numbers<narrow_unit<P, Rule, narrow_rows_limit<P>(), key_rows, value_rows>>(scratch, rows, wave, item);
    }

    template <class Unit>
    void attend_numbers(arena& scratch, row_block<Q, O> const& rows, index wave, work_item const& item) const noexcept {
        index const head_dim = x_.kv.head_dim(), head_dim_v = x_.kv.head_dim_v(), padded = Unit::padded(rows.count);
        attend_heads<Unit>(rows, wave, item, [&](head_context const& ctx) {
            auto const x = narrow_scratch<T>::lay_out(scratch, padded, head_dim, head_dim_v, plan_.narrow_kv_cols);
            return Unit{x, rule_, ctx, head_dim, head_dim_v, scale_};
        });
    }

    template <class Unit>
    void attend_codes(arena& scratch, row_block<Q, O> const& rows, index wave, work_item const& item) const noexcept {
        problem const& shape = plan_.shape;
        attend_heads<Unit>(rows, wave, item, [&](head_context const& ctx) {
            auto const x =
                integer_scratch::lay_out(scratch, plan_.narrow_rows, shape.head_dim, shape.head_dim_v, plan_.narrow_kv_cols);
            return Unit{x, rule_, ctx, x_.kv.head_dim(), x_.kv.head_dim_v(), scale_};
        });
    }

    // A kv head's unit, and what it refers to.
    template <class Unit>
    struct seat {
        head_context ctx;
        Unit unit;
        template <class Make>
        seat(head_context const& c, Make const& make) noexcept : ctx{c}, unit{make(ctx)} {}
    };

    // The keys of one part, or all. rows are the first head's.
    template <class Unit, class Make>
    void attend_heads(row_block<Q, O> rows, index wave, work_item const& item, Make const& make_unit) const noexcept {
        fixed_list<seat<Unit>, tune::heads_together> seats;
        fixed_list<head_pass<Unit, kv_head<key_rows, value_rows>>, tune::heads_together> heads;
        for (index h = 0; h < item.heads; ++h) {
            placed_head const at = order_.head(item.head.place + h);
            auto& its = seats.add(context_of(at), make_unit);
            heads.add(its.unit, rows.of_later_heads(h * group_), head_at(at), its.ctx);
        }
        reading const order = x_.kv.lies_apart() ? reading::apart_ahead : of_rows_in_order;
        imbrex::attend(heads.all(), keys_of(item), rule_, plan_.narrow_kv_cols, order, observer_);
        if (item.parts > 1 && !merge_parts(heads.all(), wave, item)) return;
        for (auto& h : heads.all()) h.unit.finish(h.rows);
    }

    // Leaves the units' states of one part; the worker that is last of these heads to do so merges all parts, in their order.
    // Whether it did.
    template <class Pass>
    bool merge_parts(std::span<Pass> heads, index wave, work_item const& item) const noexcept {
        index const first = order_.first_state(item.head.place) - order_.first_state(wave);
        index state = first;
        for (auto& h : heads) h.unit.park(part_at(state + item.part).state), state += item.parts;
        if (parts_to_come(first).fetch_sub(1, std::memory_order_acq_rel) > 1) return false;
        state = first;
        for (auto& h : heads) {
            h.unit.begin(h.rows);
            for (index i = 0; i < item.parts; ++i) h.unit.add(part_at(state++).state);
        }
        return true;
    }

    part_slot<P> part_at(index state) const noexcept {
        arena memory{memory_of_part(state)};
        return part_slot<P>::lay_out(memory, plan_.split.rows, x_.kv.head_dim_v());
    }
    row_block<Q, O> rows_of(work_item const& item) const noexcept {
        token_run const tokens = q_.of(item.head.sequence);
        index const batch = batch_entry(x_.q.shape, item.head.sequence);
        index const head = item.head.kv_head * group_, count = group_ * tokens.count;
        row_block<Q, O> r;
        r.q = x_.q.row(batch, tokens.first, head);
        r.q_token = x_.q.strides.token;
        r.q_head = x_.q.strides.head;
        r.out = x_.out.row(batch, tokens.first, head);
        r.out_token = x_.out.strides.token;
        r.out_head = x_.out.strides.head;
        if (lse_.data != nullptr) r.lse = lse_.at(batch, head, tokens.first);
        r.lse_token = lse_.token_stride;
        r.lse_head = lse_.head_stride;
        r.group = group_;
        index const at_once = plan_.unit_of_rows(count) == unit_kind::narrow ? count : plan_.wide_tiles.q_rows;
        r.first = item.row_tile * at_once;
        r.count = std::min(at_once, count - r.first);
        return r;
    }

    operands<P, Source> const& x_;
    row_stats_view<float> lse_;
    Rule const& rule_;
    observer_ref observer_;
    score_scale<T> scale_;
};

}    // namespace call_detail

IMBREX_ISA_END
