// The plan: which unit, which tiles, which work items and how much scratch. Pure arithmetic; nothing here touches tensors.
//
// A plan is a small value in the caller's storage. Its lengths are capacities: calls may be shorter, so that a decode step does
// not plan anew. Several calls may run on one const plan at once, each with a workspace of its own.
//
// A call runs in waves of two phases, each one executor.run: *prepare* packs kv heads into scratch as the wide unit reads them
// best, where that pays, *attend* computes. Without copies there is one wave, of attend alone, unless heads that are split
// (kv_split.hpp) are more than the workspace has room for. Work items are taken from an atomic counter in the workspace, in the
// order that work_order.hpp tells, and each item is computed by one worker in one order. The parts of a split head are items; who
// finishes the last of them merges their states, in the order of the parts. So the bits do not depend on the number of threads.
//
// Split are heads whose rows are the narrow unit's (decode). Prefill over long keys is not: it has row tiles to share out.
#pragma once

#include <algorithm>

#include "imbrex/kernel/amx_family.hpp"
#include "imbrex/kv_split.hpp"
#include "imbrex/precision.hpp"
#include "imbrex/problem.hpp"
#include "imbrex/status.hpp"
#include "imbrex/tune.hpp"
#include "imbrex/units/narrow.hpp"
#include "imbrex/units/narrow_integer.hpp"

namespace imbrex {

enum class unit_kind { narrow, wide };

struct plan {
    problem shape{};
    tile_shape wide_tiles{};
    index narrow_kv_cols = 0;
    index narrow_rows = 0;              // up to so many rows of a kv head go to the narrow unit
    index vector_rows = 1;              // of the wide unit: query rows in one vector
    index slot_bytes = 0;               // scratch of one worker
    index heads_together = 1;           // kv heads that few rows read together where they lie side by side, at most
    index copy_bytes = 0;               // of one packed kv head; 0 where this plan packs none
    index copy_tokens = 0;              // that it has room for
    packing_policy packing{};           // which kv heads are
    kv_split split{};                   // of kv heads that the narrow unit reads
    std::string_view dtypes[4] = {};    // query, key, value, output
    products by = products::as_stored;
    wide_kind wide = wide_kind::widened;
    std::string_view isa{};
    std::string_view narrow_note{};    // what path_of tells of the narrow unit besides; likewise wide_note
    std::string_view wide_note{};
    std::string_view wide_refusal{};    // why a better wide unit cannot run here

    constexpr bool made() const noexcept { return slot_bytes > 0; }
    // Of so many rows of a kv head, query heads and tokens together.
    constexpr unit_kind unit_of_rows(index rows) const noexcept {
        return rows <= narrow_rows ? unit_kind::narrow : unit_kind::wide;
    }
    // How many rows, at the end of a tile of so many, the narrow unit takes: all of a head with few; of others those that would
    // fill no more than a quarter of the wide unit's last vector (windows of 49 tokens, D=32: 24.2 -> 21.2 ms, AMD Zen 4, g++ 12,
    // 2026-11-30).
    constexpr index narrow_rows_of(index rows_of_head, index rows_of_tile) const noexcept {
        if (unit_of_rows(rows_of_head) == unit_kind::narrow) return rows_of_tile;
        index const tail = rows_of_tile % vector_rows;
        return tail <= vector_rows / 4 ? tail : 0;
    }
    constexpr unit_kind unit(index q_tokens) const noexcept { return unit_of_rows(shape.group() * q_tokens); }
    // Work items of one kv head with this many queries: the narrow unit takes all its rows at once.
    constexpr index row_tiles(index q_tokens) const noexcept {
        index const rows = shape.group() * q_tokens;
        return unit_of_rows(rows) == unit_kind::narrow ? std::min<index>(1, rows)
                                                       : (rows + wide_tiles.q_rows - 1) / wide_tiles.q_rows;
    }
    // Work items that the keys of one kv head are split into: 1 where the wide unit reads them, which has row tiles to share out.
    // share: work_order's, where workers decide.
    constexpr index kv_parts(index q_tokens, index kv_tokens, index share = 0) const noexcept {
        return q_tokens > 0 && unit(q_tokens) == unit_kind::narrow ? split.parts(kv_tokens, share) : 1;
    }
    // Whether the kv heads of a sequence with this many query tokens, and so many tokens of keys that are there, are packed.
    constexpr bool copies(index q_tokens, index held = 0) const noexcept {
        return copy_bytes > 0 && shape.group() * q_tokens >= packing.from_row_tiles * wide_tiles.q_rows && held <= copy_tokens;
    }
    // kv heads copied at a time: as many as there are workers, but for the first only within a budget of bytes; several for each
    // of many workers where all heads are packed.
    constexpr index heads_per_wave(index workers) const noexcept {
        index const each = workers > 1 && packing.of == packing_policy::which::all ? tune::packed_heads_per_worker : 1;
        return std::clamp<index>(tune::copy_budget_bytes / std::max<index>(1, copy_bytes), 1, each * workers);
    }
};

// Where one call finds its scratch. The same walk counts the bytes and hands them out.
struct workspace_layout {
    std::byte* counter = nullptr;    // of work items taken
    position* order = nullptr;       // the sequences, in the order in which they are taken
    index* first_item = nullptr;     // of each in that order, and the end of the last one's
    index* first_state = nullptr;    // likewise, of the states of parts
    std::byte* slots = nullptr;      // one per worker
    std::byte* copies = nullptr;     // of heads_per_wave kv heads
    std::byte* states = nullptr;     // of parts of kv heads
    index state_count = 0;
    index workers = 1;
    std::size_t bytes = 0;

    static workspace_layout of(plan const& p, index workers, std::byte* base) noexcept {
        workspace_layout w;
        arena memory{base};
        w.workers = workers;
        w.counter = memory.take<std::byte>(static_cast<index>(cache_line_bytes));
        w.order = memory.take<position>(p.shape.batch);
        w.first_item = memory.take<index>(p.shape.batch + 1);
        w.first_state = memory.take<index>(p.shape.batch + 1);
        w.slots = memory.take<std::byte>(workers * p.slot_bytes);
        w.copies = memory.take<std::byte>(p.copy_bytes > 0 ? p.heads_per_wave(workers) * p.copy_bytes : 0);
        index const heads_at_most = std::min(p.shape.batch, max_length) * p.shape.kv_heads;
        w.state_count = p.split.states(heads_at_most, p.shape.kv_tokens, workers, p.heads_together);
        w.states = memory.take<std::byte>(w.state_count * p.split.state_bytes);
        w.bytes = memory.used();
        return w;
    }
};

// Bytes of workspace that a call on this plan needs when its executor has this many workers (1 to max_workers); any
// alignment will do.
inline std::size_t workspace_bytes(plan const& p, index workers = 1) noexcept {
    return workspace_layout::of(p, std::clamp<index>(workers, 1, max_workers), nullptr).bytes + cache_line_bytes - 1;
}

// Which path calls with this many query tokens take, e.g. "wide unit, f32 x f32 x f32 -> f32, avx512, tiles of 64 x 128".
inline status_text path_of(plan const& p, index q_tokens) noexcept {
    bool const narrow = p.unit(q_tokens) == unit_kind::narrow;
    status_text t;
    if (!p.made()) return t << "no plan was made";
    t << (narrow ? "narrow" : "wide") << " unit, " << p.dtypes[0] << " x " << p.dtypes[1] << " x " << p.dtypes[2] << " -> "
      << p.dtypes[3] << ", " << p.isa << ", tiles of " << (narrow ? p.narrow_rows : p.wide_tiles.q_rows) << " x "
      << (narrow ? p.narrow_kv_cols : p.wide_tiles.kv_cols);
    index const few = narrow ? 0 : p.narrow_rows_of(p.shape.group() * q_tokens, p.shape.group() * q_tokens);
    if (few > 0) t << ", the last " << few << (few == 1 ? " row" : " rows") << " of a kv head in the narrow unit";
    if (index const parts = p.kv_parts(q_tokens, p.shape.kv_tokens); parts > 1) t << ", kv in " << parts << " parts";
    t << (narrow ? p.narrow_note : p.wide_note);
    if (!narrow) t << p.wide_refusal;
    if (p.copies(q_tokens))
        t << (p.packing.of == packing_policy::which::all ? ", kv heads packed once" : ", kv heads that lie apart copied");
    return t;
}
inline status_text path_of(plan const& p) noexcept { return path_of(p, p.shape.q_tokens); }

}    // namespace imbrex

IMBREX_ISA_BEGIN

template <precision_policy P>
narrow_scratch<typename P::score> lay_out_narrow(arena& memory, problem const& p, index rows, index kv_cols) noexcept {
    return narrow_scratch<typename P::score>::lay_out(memory, rows, p.head_dim, p.head_dim_v, kv_cols);
}

// What is left of one part of a kv head until all parts are done: a count of parts to come, used of the first part's only, and
// the state.
template <precision_policy P>
struct part_slot {
    std::byte* to_come;
    narrow_state<typename P::score> state;

    static part_slot lay_out(arena& memory, index rows, index head_dim_v) noexcept {
        part_slot s;
        s.to_come = memory.take<std::byte>(static_cast<index>(cache_line_bytes));
        if constexpr (integer_unit<P> || group_unit<P>) head_dim_v = integer_scratch::padded(head_dim_v);
        s.state = narrow_state<typename P::score>::lay_out(memory, rows, head_dim_v);
        return s;
    }
};

template <precision_policy P>
constexpr index narrow_rows_limit() noexcept {
    return std::min<index>(tune::narrow_rows, lane_count<typename P::score>);
}

constexpr bool fits_a_unit(index kv_cols) noexcept { return kv_cols >= 16 && kv_cols <= max_kv_cols && kv_cols % 16 == 0; }

// What make_plan says of the wide unit: the best family that can run here, its tiles, and which kv heads are packed for it.
template <class F, class Tiles>
status plan_wide(F, tile_request request, plan& p, index& scratch_bytes) noexcept {
    request.lanes = F::vector_rows;
    request.max_q_rows = F::max_rows;
    request.wide = p.wide = F::kind;
    p.wide_note = F::note;
    p.wide_tiles = Tiles::select(request);
    if constexpr (requires { F::nearest(p.wide_tiles, p.shape); }) p.wide_tiles = F::nearest(p.wide_tiles, p.shape);
    p.vector_rows = F::vector_rows;
    index const rows = p.wide_tiles.q_rows;
    if (rows < F::vector_rows || rows > F::max_rows || rows % F::vector_rows != 0 || !fits_a_unit(p.wide_tiles.kv_cols)) {
        return status{errc::tiles_unsupported, rows, p.wide_tiles.kv_cols, F::max_rows};
    }
    arena count{nullptr};
    F::scratch::lay_out(count, p.shape, p.wide_tiles);
    scratch_bytes = static_cast<index>(count.used());
    p.packing = F::packs(p.shape.layout);
    p.copy_tokens = p.shape.held();
    if (p.packing.from_row_tiles == 0 || p.shape.group() * p.shape.q_tokens < p.packing.from_row_tiles * rows) return {};
    p.copy_bytes = F::packed::bytes(p.shape, p.copy_tokens);
    while (p.shape.layout != kv_layout::strided && p.copy_bytes > tune::copy_budget_bytes) {
        p.copy_tokens = p.copy_tokens / 2 / copy_rows * copy_rows;
        p.copy_bytes = F::packed::bytes(p.shape, p.copy_tokens);
    }
    return {};
}

template <precision_policy P, class Tiles>
status plan_wide_unit(tile_request const& request, plan& p, index& scratch_bytes) noexcept {
    status s;
    wide_families<P>::choose([&](std::string_view refusal) { p.wide_refusal = refusal; },
                             [&](auto family) { s = plan_wide<decltype(family), Tiles>(family, request, p, scratch_bytes); });
    return s;
}

// Plans calls whose shapes stay within `shape`. Errors: a size out of range, heads that do not divide, tiles that do not fit.
template <precision_policy P, class Tiles = tuned_tiles>
status make_plan(problem shape, plan& out) noexcept {
    static_assert(tile_selector<Tiles>,
                  "imbrex: the tile policy lacks a static select(tile_request) that returns a tile_shape; use "
                  "fixed_tiles<tile_shape{64, 128}> or tuned_tiles");
    constexpr index W = lane_count<typename P::score>;
    if (shape.head_dim_v == 0) shape.head_dim_v = shape.head_dim;
    if (status const s = check_problem(shape); !s) return s;

    tile_request request{shape.head_dim, shape.head_dim_v,
                         std::min(bytes_per_value<typename P::key>, bytes_per_value<typename P::value>)};
    plan p;
    p.shape = shape;
    index wide_bytes = 0;
    if (status const s = plan_wide_unit<P, Tiles>(request, p, wide_bytes); !s) return s;
    request.narrow = true;
    request.lanes = W;
    request.max_q_rows = wide_geometry<typename P::score>::max_rows;
    p.narrow_kv_cols = tile_shape{Tiles::select(request)}.kv_cols;
    p.narrow_rows = narrow_rows_limit<P>();
    if (!fits_a_unit(p.narrow_kv_cols)) return status{errc::tiles_unsupported, W, p.narrow_kv_cols, request.max_q_rows};

    arena narrow_count{nullptr};
    lay_out_narrow<P>(narrow_count, shape, p.narrow_rows, p.narrow_kv_cols);
    index narrow_bytes = static_cast<index>(narrow_count.used());
    if constexpr (integer_unit<P> || group_unit<P>) {
        arena integer_count{nullptr};
        integer_scratch::lay_out(integer_count, p.narrow_rows, shape.head_dim, shape.head_dim_v, p.narrow_kv_cols);
        narrow_bytes = std::max(narrow_bytes, static_cast<index>(integer_count.used()));
        p.narrow_note = integer_unit<P> ? ", int8 multiplied as it lies where a row has one scale or some for whole 32s"
                                        : ", multiplied as they lie where they have scales for whole 32s";
    }
    if constexpr (values_in_pairs<P>)
        p.narrow_note = ", bf16 multiplied in pairs";
    else if constexpr (keys_in_pairs<P>)
        p.narrow_note = ", queries and keys of bf16 multiplied in pairs";
    index const most_rows = shape.group() * shape.q_tokens;
    if (shape.layout != kv_layout::contiguous) {
        index const in_budget = std::min(tune::heads_together, tune::heads_together_bytes / narrow_bytes);
        p.heads_together = std::clamp<index>(shape.kv_heads, 1, std::max<index>(1, in_budget));
        narrow_bytes *= p.heads_together;
    }
    p.slot_bytes = most_rows > p.narrow_rows ? std::max(wide_bytes, narrow_bytes) : narrow_bytes;
    if (shape.q_tokens > 0 && shape.group() <= p.narrow_rows) {
        index const token_bytes = row_bytes<typename P::key>(shape.head_dim) + row_bytes<typename P::value>(shape.head_dim_v);
        bool const shared = shape.split == split_policy::by_workers;
        index const cols = shared ? std::min(tune::shared_keys, p.narrow_kv_cols) : p.narrow_kv_cols;
        index const keys = shared ? cols : kv_split::least_keys_of(token_bytes, cols);
        if (shape.kv_tokens > keys) {
            arena state_count{nullptr};
            index const state_rows = std::min(p.narrow_rows, most_rows);
            part_slot<P>::lay_out(state_count, state_rows, shape.head_dim_v);
            p.split = {keys, cols, state_rows, static_cast<index>(state_count.used())};
        }
    }
    p.dtypes[0] = dtype_name<typename P::query>();
    p.dtypes[1] = encoding_name<typename P::key>();
    p.dtypes[2] = encoding_name<typename P::value>();
    p.dtypes[3] = dtype_name<typename P::output>();
    p.by = products_of<P>;
    p.isa = IMBREX_ISA_NAME;
    out = p;
    return {};
}

IMBREX_ISA_END
