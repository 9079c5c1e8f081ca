// Wide families: a wide unit, and how keys and values of any encoding and addressing reach it as tiles of the type that it reads.
//
//   F::kind, F::note          what a plan and path_of say of it
//   F::refusal()              why it cannot run here, for path_of; empty: it can
//   F::vector_rows, max_rows  query rows in a vector, and of the unit's register block
//   F::nearest(shape, problem)  if it has one: the nearest tile shape that the unit takes
//   F::unit<Rule>             the unit; its tiles begin a multiple of its kv_step keys, if it has one, after the first there is
//   F::scratch                of one worker, counted and handed out by lay_out: .unit for the unit, .tiles for F::tiles
//   F::tiles<Head>            a kv head as tiles, each made when it is asked for: in place, or converted into scratch
//   F::packed                 a kv head as tiles, made once per call in the prepare phase for all its row tiles
//   F::packs(layout)          which kv heads that is done for
//
// F::packed has bytes(problem, tokens), of a head; of(head, tokens held, problem, layout, memory); and pack(head, tokens), which
// makes some, the first of them a multiple of copy_rows after the first there is. Keys or values may stay where they lie;
// `layout` says how this call's tokens lie.
#pragma once

#include "imbrex/kernel/paired.hpp"
#include "imbrex/kernel/widened.hpp"
#include "imbrex/precision.hpp"
#include "imbrex/units/wide.hpp"

namespace imbrex {

// Which kv heads are packed once per call: none; or those that so many row tiles read, of sequences whose tokens lie far apart or
// of all.
struct packing_policy {
    enum class which { tokens_apart, all };

    index from_row_tiles = 0;    // 0: none
    which of = which::tokens_apart;
};

inline constexpr index copy_rows = 256;    // tokens that an item of the prepare phase packs

}    // namespace imbrex

IMBREX_ISA_BEGIN

// Everything in f32, or f64: keys and values in place where they are stored so, else widened.
template <precision_policy P>
struct widening_family {
    using T = typename P::score;

    static constexpr wide_kind kind = wide_kind::widened;
    static constexpr std::string_view note{};
    static std::string_view refusal() noexcept { return {}; }

    static constexpr index vector_rows = lane_count<T>;
    static constexpr index max_rows = wide_geometry<T>::max_rows;

    template <class Rule>
    using unit = wide_unit<P, Rule>;
    template <class Head>
    using tiles = widened<T, Head>;
    using packed = copied_head<T>;

    struct scratch {
        wide_scratch<T> unit;
        widening_scratch<T> tiles;

        static scratch lay_out(arena& memory, problem const& p, tile_shape shape) noexcept {
            scratch s;
            s.unit = wide_scratch<T>::lay_out(memory, p.head_dim, p.head_dim_v, shape.kv_cols);
            s.tiles = widening_scratch<T>::template lay_out<typename P::key, typename P::value>(
                memory, p.head_dim, p.head_dim_v, shape.kv_cols, p.layout == kv_layout::paged);
            return s;
        }
    };

    static constexpr packing_policy packs(kv_layout layout) noexcept {
        if (layout != kv_layout::strided) return {};
        return {tune::copy_from_row_tiles, packing_policy::which::tokens_apart};
    }
};

// Dot products of pairs of bf16: keys in place, values of two keys side by side.
template <precision_policy P>
struct bf16_pairs_family {
    static constexpr wide_kind kind = wide_kind::bf16_pairs;
    static constexpr std::string_view note = ", bf16 multiplied in pairs";
    static std::string_view refusal() noexcept { return {}; }

    static constexpr index vector_rows = lane_count<float>;
    static constexpr index max_rows = wide_geometry<float>::max_rows;

    template <class Rule>
    using unit = wide_bf16_unit<P, Rule>;
    template <class Head>
    using tiles = paired<Head>;
    using packed = paired_head;

    struct scratch {
        pair_scratch unit;
        pairing_scratch tiles;

        static scratch lay_out(arena& memory, problem const& p, tile_shape shape) noexcept {
            scratch s;
            s.unit = pair_scratch::lay_out(memory, p.head_dim, p.head_dim_v, shape.kv_cols);
            s.tiles = pairing_scratch::lay_out(memory, p.head_dim, p.head_dim_v, shape.kv_cols, p.layout == kv_layout::paged);
            return s;
        }
    };

    static constexpr packing_policy packs(kv_layout) noexcept { return {tune::pair_from_row_tiles, packing_policy::which::all}; }
};

// The families of a precision on this instruction set, from the best to the one that always runs.
template <class... F>
struct family_list {
    // f of the family of that kind.
    template <class Fn>
    static void with(wide_kind kind, Fn const& f) noexcept {
        ((F::kind == kind ? f(F{}) : void()), ...);
    }
    // f of the first that can run here, after why(refusal) of those before.
    template <class Why, class Fn>
    static void choose(Why const& why, Fn const& f) noexcept {
        bool chosen = false;
        auto const offer = [&](auto family) {
            if (chosen) return;
            std::string_view const refusal = family.refusal();
            if (!refusal.empty()) return why(refusal);
            chosen = true;
            f(family);
        };
        (offer(F{}), ...);
    }
};

template <precision_policy P>
struct wide_families_of {
    using type = family_list<widening_family<P>>;
};
template <precision_policy P>
    requires pairs_unit<P>
struct wide_families_of<P> {
    using type = family_list<bf16_pairs_family<P>>;
};

IMBREX_ISA_END
