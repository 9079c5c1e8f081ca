// tile.hpp: tile shapes are values, and a selector is any type that turns a request into one.
#include "imbrex/tile.hpp"

#include <type_traits>

#include <gtest/gtest.h>

namespace {

using imbrex::fixed_tiles;
using imbrex::tile_request;
using imbrex::tile_selector;
using imbrex::tile_shape;

template <tile_shape Shape>
constexpr tile_shape as_template_argument = Shape;

TEST(TileShape, IsAValueThatCanBeATemplateArgument) {
    static_assert(as_template_argument<tile_shape{64, 128}> == tile_shape{.q_rows = 64, .kv_cols = 128});
    static_assert(tile_shape{64, 128} != tile_shape{128, 64} && tile_shape{} == tile_shape{0, 0});
    static_assert(std::is_trivially_copyable_v<tile_shape>);
}

TEST(TileSelector, IsAnyTypeThatSelectsAShapeForARequest) {
    struct by_head_dim {
        static constexpr tile_shape select(tile_request const& r) { return {16, r.head_dim}; }
    };
    struct not_static {
        tile_shape select(tile_request const&) const;
    };
    struct selects_a_number {
        static int select(tile_request const&);
    };
    static_assert(tile_selector<fixed_tiles<tile_shape{64, 128}>>);
    static_assert(tile_selector<by_head_dim>);
    static_assert(!tile_selector<not_static> && !tile_selector<selects_a_number>);
    static_assert(!tile_selector<tile_shape> && !tile_selector<int>);
}

TEST(FixedTiles, AreTheSameForEveryShape) {
    using tiles = fixed_tiles<tile_shape{48, 96}>;
    static_assert(tiles::select({.head_dim = 1, .head_dim_v = 1}) == tile_shape{48, 96});
    static_assert(tiles::select({.head_dim = 1024, .head_dim_v = 7, .kv_element_bytes = 2, .lanes = 8, .max_q_rows = 24}) ==
                  tile_shape{48, 96});
}

TEST(FixedTiles, LeaveTheRowsToTheNarrowUnit) {
    static_assert(fixed_tiles<tile_shape{48, 96}>::select({.head_dim = 64, .narrow = true}) == tile_shape{0, 96});
}

}    // namespace
