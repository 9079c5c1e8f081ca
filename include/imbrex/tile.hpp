// The tile policy: how many query rows and how many keys one step of the loop takes.
#pragma once

#include <concepts>

#include "imbrex/config.hpp"
#include "imbrex/products.hpp"

namespace imbrex {

// A value, so that it can be a template argument, a table entry or a run-time choice.
struct tile_shape {
    index q_rows = 0;     // a multiple of the lanes of a vector; the unit's register block is the most
    index kv_cols = 0;    // a multiple of 16, at most max_kv_cols
    friend constexpr bool operator==(tile_shape const&, tile_shape const&) = default;
};

inline constexpr index max_kv_cols = 2048;    // status.hpp tells it

// What a selector is told: the shape, and what the unit can do on this ISA.
struct tile_request {
    index head_dim = 0;
    index head_dim_v = 0;
    index kv_element_bytes = 0;             // of key or value, the smaller
    index lanes = 0;                        // elements in a vector
    index max_q_rows = 0;                   // rows of the unit's register block
    bool narrow = false;                    // the few-rows unit, which takes its own number of rows and asks for kv_cols only
    wide_kind wide = wide_kind::widened;    // of the other
};

template <class S>
concept tile_selector = requires(tile_request r) {
    { S::select(r) } -> std::convertible_to<tile_shape>;
};

// The same tiles for every shape, e.g. attention<fixed_tiles<tile_shape{64, 128}>>(...).
template <tile_shape Shape>
struct fixed_tiles {
    static constexpr tile_shape select(tile_request const& r) noexcept { return r.narrow ? tile_shape{0, Shape.kv_cols} : Shape; }
};

}    // namespace imbrex
