// bf16, and f16 as the sum of two bf16, on the tile unit, where the processor and the kernel let it: compiled in with -mamx-tile
// -mamx-bf16 (-march=sapphirerapids and newer). With IMBREX_EMULATE_AMX defined the same unit runs on emulated tiles wherever it
// is compiled, which is for tests.
#pragma once

#include <string_view>

#include "imbrex/kernel/amx_heads.hpp"
#include "imbrex/kernel/wide_family.hpp"
#include "imbrex/units/amx_wide.hpp"

IMBREX_ISA_BEGIN

template <precision_policy P, class Tiles>
struct amx_family {
    static constexpr int limbs = amx_limbs<typename P::query>;
    static constexpr wide_kind kind = limbs == 1 ? wide_kind::amx_tiles : wide_kind::amx_limb_tiles;
    static constexpr std::string_view note = limbs == 1 ? Tiles::note : Tiles::note_of_limbs;
    static std::string_view refusal() noexcept { return Tiles::refusal(); }

    static constexpr index vector_rows = 16;                    // of half a tile of rows
    static constexpr index tile_bytes = index{256} << 10;       // of keys and values, at most
    static constexpr index scratch_bytes = index{480} << 10;    // of all of a worker, where one block of keys leaves it
    static constexpr index max_rows = amx_geometry::max_rows * amx_geometry::max_parts;

    template <class Rule>
    using unit = amx_unit<P, Rule, Tiles>;
    template <class Head>
    using tiles = amx_tiles_of<Head>;
    using packed = amx_packed_head<limbs>;

    struct scratch {
        amx_scratch unit;
        amx_blocks tiles;

        static scratch lay_out(arena& memory, problem const& p, tile_shape shape) noexcept {
            scratch s;
            s.unit = amx_scratch::lay_out(memory, p.head_dim, p.head_dim_v, limbs);
            s.tiles = amx_blocks::lay_out(memory, p.head_dim, p.head_dim_v, shape.kv_cols, limbs);
            return s;
        }
    };

    // The nearest that the unit takes, with fewer rows where there would be few work items.
    static tile_shape nearest(tile_shape s, problem const& p) noexcept {
        index rows = std::min(s.q_rows, max_rows);
        index const heads = std::max<index>(1, std::min(p.batch, max_length) * p.kv_heads);
        while (rows > amx_geometry::max_rows && p.group() * p.q_tokens / rows * heads < tune::work_items) rows /= 2;
        // Where tiles are made one by one they fit L2 beside all else.
        arena others{nullptr};
        amx_scratch::lay_out(others, p.head_dim, p.head_dim_v, limbs);
        index const bytes = std::min(tile_bytes, scratch_bytes - static_cast<index>(others.used()));
        index const key_bytes = 2 * limbs * (amx_geometry::padded(p.head_dim) + amx_geometry::padded(p.head_dim_v));
        index const most_cols = std::max(bytes / key_bytes / amx_geometry::block, index{1}) * amx_geometry::block;
        return {rows, std::min(amx_blocks::whole(s.kv_cols), most_cols)};
    }
    static constexpr packing_policy packs(kv_layout) noexcept { return {tune::pack_from_row_tiles, packing_policy::which::all}; }
};

template <precision_policy P, class Others>
struct with_amx {
    using type = Others;
};
#if defined(IMBREX_HAS_AMX_BF16) || defined(IMBREX_EMULATE_AMX)
template <precision_policy P, class... F>
    requires rounds_weights_to_bf16<P> || all_f16<P>
struct with_amx<P, family_list<F...>> {
    using type = family_list<amx_family<P, amx_tiles_here>, F...>;
};
#endif

// The families of a precision.
template <precision_policy P>
using wide_families = typename with_amx<P, typename wide_families_of<P>::type>::type;

IMBREX_ISA_END
