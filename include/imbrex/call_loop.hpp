// The work of one call, apart from its types: the waves of a plan, and their items, taken from an atomic counter by the
// executor's workers. What depends on types is asked for through a few functions (typed_call), so that this is compiled once and
// not with every precision, rule and kind of keys.
#pragma once

#include <atomic>
#include <new>

#include "imbrex/executor.hpp"
#include "imbrex/work_order.hpp"

IMBREX_ISA_BEGIN

namespace call_detail {

// The functions of a call that know its types; `rule` and `call` are handed back to them.
struct typed_call {
    // What queries at positions first ... last of one kv head may see at most.
    using seen_by = kv_range (*)(void const* rule, head_context const& ctx, position first, position last);
    // Packs a few tokens of a kv head, the row-th that is there first: it is packed as head `place - wave`.
    using packer = void (*)(void const* call, index wave, index place, index row);
    // then: what the worker takes next, most likely; may be null.
    using attender = void (*)(void const* call, index wave, work_item const& item, work_item const* then, index slot);

    void const* rule;
    seen_by seen;
    void const* call;
    packer pack;
    attender attend;
};

class call_loop {
public:
    IMBREX_NOINLINE call_loop(plan const& p, sequence_side const& q, sequence_side const& kv, work_order::kv_rows lie,
                              executor_ref executor, index workers, std::byte* memory, typed_call const& typed) noexcept
        : plan_{p},
          group_{p.shape.group()},
          q_{q},
          kv_{kv},
          executor_{executor},
          workers_{workers},
          memory_{workspace_layout::of(p, workers, align_up(memory))},
          typed_{typed},
          packs_{p.packing.of == packing_policy::which::all || lie == work_order::kv_rows::apart},
          order_{p, q, kv, packs_ ? work_order::copying::as_planned : work_order::copying::none, memory_, lie, [this](index s) {
                     auto const seen = keys_seen(s);
                     return index{seen.end} - seen.begin;
                 }} {}
    call_loop(call_loop const&) = delete;
    call_loop& operator=(call_loop const&) = delete;

    IMBREX_NOINLINE void run() const {
        index const copied = order_.copied_heads(), wave = plan_.heads_per_wave(workers_);
        for (index first = 0; first < order_.heads();) {
            index const count = std::min(wave, copied - first);
            index const end =
                first + count == copied ? order_.end_of_wave(first, order_.heads(), memory_.state_count) : first + count;
            if (count > 0) {
                index const parts = (most_held(first, count) + copy_rows - 1) / copy_rows;
                share_out(count * parts, 1, [&](index i, index, index) {
                    typed_.pack(typed_.call, first, first + i / parts, i % parts * copy_rows);
                });
            }
            expect_parts(first, end);
            index const first_item = order_.first_item(first), items = order_.first_item(end) - first_item;
            share_out(items, plan_.row_tiles(plan_.shape.q_tokens), [&](index i, index then, index slot) {
                work_item const next = then < items ? order_.item(first_item + then) : work_item{};
                typed_.attend(typed_.call, first, order_.item(first_item + i), then < items ? &next : nullptr, slot);
            });
            first = end;
        }
    }

protected:
    head_context context_of(placed_head const& at) const noexcept {
        return {at.sequence, static_cast<position>(q_.of(at.sequence).count), static_cast<position>(kv_.of(at.sequence).count),
                static_cast<position>(at.kv_head * group_), static_cast<position>(group_)};
    }

    // What queries of one kv head may see at most.
    kv_range seen_in(head_context const& ctx) const noexcept {
        return typed_.seen(typed_.rule, ctx, ctx.query_offset(), static_cast<position>(ctx.kv_len - 1));
    }

    // Those of one part. The first and the last reach to the ends of the sequence, whose tiles are then all counted.
    IMBREX_NOINLINE kv_range keys_of(work_item const& item) const noexcept {
        auto const kv_len = static_cast<position>(kv_.of(item.head.sequence).count);
        if (item.parts == 1) return {0, kv_len};
        kv_range const seen = keys_seen(item.head.sequence);
        index const keys = plan_.split.keys_of_part(seen.end - seen.begin, order_.share()), begin = seen.begin + item.part * keys;
        return {item.part == 0 ? 0 : static_cast<position>(begin),
                item.part == item.parts - 1 ? kv_len : static_cast<position>(begin + keys)};
    }

    bool packs() const noexcept { return packs_; }

    std::byte* memory_of_part(index state) const noexcept { return memory_.states + state * plan_.split.state_bytes; }
    // How many parts of a head are to come yet, where memory of its first part says so.
    std::atomic<index>& parts_to_come(index first_state) const noexcept {
        return *std::launder(reinterpret_cast<std::atomic<index>*>(memory_of_part(first_state)));
    }

    plan const& plan_;
    index group_;    // query heads to a kv head
    sequence_side q_, kv_;
    executor_ref executor_;
    index workers_;
    workspace_layout memory_;
    typed_call typed_;
    bool packs_;
    work_order order_;

private:
    static std::byte* align_up(std::byte* p) noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        return p + (cache_line_bytes - address % cache_line_bytes) % cache_line_bytes;
    }

    // Runs body(item, likely next item, slot) for every item, each once. Any number of tasks, even one alone, finishes them all.
    // A task takes several items in a row, at most so many together: row tiles of one head, which then find its keys and values
    // in its core's cache. It takes ever fewer, so that tasks end together (guided self-scheduling: Polychronopoulos & Kuck
    // 1987).
    template <class F>
    void share_out(index items, index together, F&& body) const {
        if (items == 0) return;
        auto* const taken = new (memory_.counter) std::atomic<index>{0};
        index const tasks = std::min(workers_, items);
        auto task = [&](index slot) {
            for (index i = 0, begin = 0, end = 0;; ++i) {
                if (i == end) {
                    i = taken->load(std::memory_order_relaxed);
                    do {
                        if (i >= items) return;
                        end = i + std::clamp<index>((items - i) / (tune::runs_per_worker * tasks), 1, together);
                    } while (!taken->compare_exchange_weak(i, end, std::memory_order_relaxed));
                    begin = i;
                }
                body(i, i + 1 < end ? i + 1 : end + (tasks - 1) * (end - begin), slot);
            }
        };
        executor_.run(tasks, task);
    }

    // The keys that are there and that some query of a sequence may see, in some head, from the beginning of a tile on: those
    // that parts are made of.
    kv_range keys_seen(index sequence) const noexcept {
        auto const kv_len = static_cast<position>(kv_.of(sequence).count);
        kv_range seen{kv_len, 0};
        for (index h = 0; h < plan_.shape.kv_heads; ++h) {
            kv_range const of_head = seen_in(context_of({0, sequence, h}));
            seen = {std::min(seen.begin, of_head.begin), std::max(seen.end, of_head.end)};
        }
        index const begin = std::max<index>(seen.begin, kv_len - kv_.held(sequence)), end = std::min(seen.end, kv_len);
        if (begin >= end) return {};
        return {static_cast<position>(begin - begin % plan_.split.kv_cols), static_cast<position>(end)};
    }

    index most_held(index first, index heads) const noexcept {
        index most = 0;
        for (index i = first; i < first + heads; ++i) most = std::max(most, kv_.held(order_.head(i).sequence));
        return most;
    }

    // Sets the counts of the heads of a wave that are split.
    void expect_parts(index wave, index end) const noexcept {
        index const before = order_.first_state(wave);
        if (order_.first_state(end) == before) return;
        for (index place = wave; place < end; ++place) {
            index const first = order_.first_state(place), parts = order_.first_state(place + 1) - first;
            if (parts > 0) new (memory_of_part(first - before)) std::atomic<index>{parts};
        }
    }
};

}    // namespace call_detail

IMBREX_ISA_END
