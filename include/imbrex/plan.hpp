// The plan: which unit, which tiles, which work items and how much scratch. Pure arithmetic; nothing here touches tensors.
//
// A plan is a small value in the caller's storage. Its lengths are capacities: calls may be shorter, so that a decode step does
// not plan anew. Several calls may run on one const plan at once, each with a workspace of its own.
//
// A call runs in waves of two phases, each one executor.run: *prepare* copies kv heads to contiguous scratch where that pays,
// *attend* computes. Without copies there is one wave, of attend alone, unless heads that are split (kv_split.hpp) are more than
// the workspace has room for. Work items are taken from an atomic counter in the workspace, in the order that work_order.hpp
// tells, and each item is computed by one worker in one order. The parts of a split head are items; who finishes the last of them
// merges their states, in the order of the parts. So the bits do not depend on the number of threads.
//
// Split are heads whose rows are the narrow unit's (decode). Prefill over long keys is not: it has row tiles to share out.
#pragma once

#include <algorithm>

#include "imbrex/kernel/widened.hpp"
#include "imbrex/kv_split.hpp"
#include "imbrex/precision.hpp"
#include "imbrex/status.hpp"
#include "imbrex/tune.hpp"
#include "imbrex/units/narrow.hpp"
#include "imbrex/units/narrow_int8.hpp"
#include "imbrex/units/wide.hpp"

namespace imbrex {

// How the tokens of one kv head follow each other in memory.
enum class kv_layout {
    contiguous,    // back to back (BHSD)
    strided,       // far apart (BSHD with several heads, packed QKV): a plan may copy a kv head once per call
    paged,    // in several runs (paged_kv, ring_kv, two_part_kv): prefill gathers a tile at a time; a copy of all positions of
              // a ring would have no bound
};

// The shapes to plan for. Token counts and batch are the most that a call on this plan will have.
struct problem {
    index batch = 1;        // sequences, packed ones too
    index q_tokens = 0;     // of the longest sequence
    index kv_tokens = 0;    // likewise
    index q_heads = 1;
    index kv_heads = 1;
    index head_dim = 0;
    index head_dim_v = 0;    // 0: the same as head_dim
    kv_layout layout = kv_layout::contiguous;
    split_policy split = split_policy::by_length;

    constexpr index group() const noexcept { return q_heads / std::max<index>(1, kv_heads); }
};

enum class unit_kind { narrow, wide };

struct plan {
    problem shape{};
    tile_shape wide_tiles{};
    index narrow_kv_cols = 0;
    index narrow_rows = 0;              // up to so many rows of a kv head go to the narrow unit
    index vector_rows = 1;              // of the wide unit: query rows in one vector
    index slot_bytes = 0;               // scratch of one worker
    index copy_bytes = 0;               // of one copied kv head; 0 where this plan copies none
    kv_split split{};                   // of kv heads that the narrow unit reads
    std::string_view dtypes[4] = {};    // query, key, value, output
    products by = products::as_stored;
    std::string_view isa{};
    std::string_view narrow_note{};    // what path_of tells of the narrow unit besides

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
    // Whether calls with this many query tokens copy kv heads whose tokens lie far apart.
    constexpr bool copies(index q_tokens) const noexcept {
        return copy_bytes > 0 && shape.group() * q_tokens >= tune::copy_from_row_tiles * wide_tiles.q_rows;
    }
    // kv heads copied at a time: as many as there are workers, but for the first only within a budget of bytes.
    constexpr index heads_per_wave(index workers) const noexcept {
        return std::clamp<index>(tune::copy_budget_bytes / std::max<index>(1, copy_bytes), 1, workers);
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
        w.state_count = p.split.states(heads_at_most, p.shape.kv_tokens, workers);
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
    if (narrow) t << p.narrow_note;
    if (p.copies(q_tokens)) t << ", kv heads that lie apart copied";
    return t;
}
inline status_text path_of(plan const& p) noexcept { return path_of(p, p.shape.q_tokens); }

inline status check_problem(problem const& p) noexcept {
    using enum tensor_role;
    struct {
        index size;
        tensor_role role;
    } const sizes[] = {{p.batch, query}, {p.q_tokens, query}, {p.q_heads, query}, {p.kv_tokens, key}, {p.kv_heads, key}};
    for (auto const& s : sizes) {
        if (s.size < 0) return {errc::negative_size, s.role, s.size};
    }
    for (index const size : {p.batch, p.q_heads, p.kv_heads}) {
        if (size > max_length) return {errc::too_many, query, size, max_length};
    }
    if (p.q_tokens > max_length) return {errc::too_long, query, p.q_tokens, max_length};
    if (p.kv_tokens > max_length) return {errc::too_long, key, p.kv_tokens, max_length};
    if (p.head_dim < 1 || p.head_dim > max_head_dim) return {errc::head_dim_range, query, p.head_dim, max_head_dim};
    if (p.head_dim_v < 1 || p.head_dim_v > max_head_dim) return {errc::head_dim_range, value, p.head_dim_v, max_head_dim};
    if (p.q_heads != 0 && (p.kv_heads == 0 || p.q_heads % p.kv_heads != 0)) {
        return status{errc::heads_not_divisible, p.q_heads, p.kv_heads};
    }
    return {};
}

}    // namespace imbrex

IMBREX_ISA_BEGIN

// The scratch of one worker on the wide path: the unit's own, and room to widen a tile of keys and values.
template <precision_policy P>
struct wide_slot {
    using T = typename P::score;
    wide_scratch<T> unit;
    widening_scratch<T> widening;

    static wide_slot lay_out(arena& memory, problem const& p, tile_shape tiles) noexcept {
        wide_slot s;
        s.unit = wide_scratch<T>::lay_out(memory, p.head_dim, p.head_dim_v, tiles.kv_cols);
        s.widening = widening_scratch<T>::template lay_out<typename P::key, typename P::value>(
            memory, p.head_dim, p.head_dim_v, tiles.kv_cols, p.layout == kv_layout::paged);
        return s;
    }
};

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
        if constexpr (integer_unit<P>) head_dim_v = integer_scratch::padded(head_dim_v);
        s.state = narrow_state<typename P::score>::lay_out(memory, rows, head_dim_v);
        return s;
    }
};

template <precision_policy P>
constexpr index narrow_rows_limit() noexcept {
    return std::min<index>(tune::narrow_rows, lane_count<typename P::score>);
}

// Plans calls whose shapes stay within `shape`. Errors: a size out of range, heads that do not divide, tiles that do not fit.
template <precision_policy P, class Tiles = tuned_tiles>
status make_plan(problem shape, plan& out) noexcept {
    static_assert(tile_selector<Tiles>,
                  "imbrex: the tile policy lacks a static select(tile_request) that returns a tile_shape; use "
                  "fixed_tiles<tile_shape{64, 128}> or tuned_tiles");
    using T = typename P::score;
    constexpr index W = lane_count<T>;
    constexpr index max_rows = wide_geometry<T>::max_rows;
    if (shape.head_dim_v == 0) shape.head_dim_v = shape.head_dim;
    if (status const s = check_problem(shape); !s) return s;

    tile_request const request{shape.head_dim,
                               shape.head_dim_v,
                               std::min(bytes_per_value<typename P::key>, bytes_per_value<typename P::value>),
                               W,
                               max_rows,
                               false};
    tile_request narrow = request;
    narrow.narrow = true;
    plan p;
    p.shape = shape;
    p.wide_tiles = Tiles::select(request);
    p.narrow_kv_cols = tile_shape{Tiles::select(narrow)}.kv_cols;
    p.narrow_rows = narrow_rows_limit<P>();
    p.vector_rows = W;
    auto const fits = [](index kv_cols) { return kv_cols >= 16 && kv_cols <= max_kv_cols && kv_cols % 16 == 0; };
    index const rows = p.wide_tiles.q_rows;
    if (rows < W || rows > max_rows || rows % W != 0 || !fits(p.wide_tiles.kv_cols)) {
        return status{errc::tiles_unsupported, rows, p.wide_tiles.kv_cols, max_rows};
    }
    if (!fits(p.narrow_kv_cols)) return status{errc::tiles_unsupported, W, p.narrow_kv_cols, max_rows};

    arena wide_count{nullptr}, narrow_count{nullptr};
    wide_slot<P>::lay_out(wide_count, shape, p.wide_tiles);
    lay_out_narrow<P>(narrow_count, shape, p.narrow_rows, p.narrow_kv_cols);
    std::size_t narrow_bytes = narrow_count.used();
    if constexpr (integer_unit<P>) {
        arena integer_count{nullptr};
        integer_scratch::lay_out(integer_count, p.narrow_rows, shape.head_dim, shape.head_dim_v, p.narrow_kv_cols);
        narrow_bytes = std::max(narrow_bytes, integer_count.used());
        p.narrow_note = ", int8 multiplied as it lies where a row has one scale";
    }
    index const most_rows = shape.group() * shape.q_tokens;
    p.slot_bytes = static_cast<index>(most_rows > p.narrow_rows ? std::max(wide_count.used(), narrow_bytes) : narrow_bytes);
    if (shape.layout == kv_layout::strided && most_rows >= tune::copy_from_row_tiles * rows && shape.kv_tokens > 0) {
        p.copy_bytes = shape.kv_tokens * (copied_stride<T>(shape.head_dim) + copied_stride<T>(shape.head_dim_v)) *
                       static_cast<index>(sizeof(T));
    }
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
    p.by = P::by;
    p.isa = IMBREX_ISA_NAME;
    out = p;
    return {};
}

IMBREX_ISA_END
