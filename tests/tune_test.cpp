// tune.hpp: whatever is asked, the table gives tiles that the units can run.
#include "imbrex/tune.hpp"

#include <gtest/gtest.h>

namespace {

using imbrex::index;
using imbrex::tile_request;
using imbrex::tile_shape;
using imbrex::tuned_tiles;

constexpr bool fits(tile_shape tiles) {
    return tiles.kv_cols >= 16 && tiles.kv_cols <= imbrex::max_kv_cols && tiles.kv_cols % 16 == 0;
}

TEST(TunedTiles, AreASelector) { static_assert(imbrex::tile_selector<tuned_tiles>); }

TEST(TunedTiles, FitEveryShapeOnEveryInstructionSet) {
    for (index head_dim = 1; head_dim <= imbrex::max_head_dim; ++head_dim) {
        for (index const bytes : {2, 4, 8}) {
            for (index const lanes : {2, 4, 8, 16}) {
                tile_request request{head_dim, head_dim, bytes, lanes, 4 * lanes, false};
                tile_shape const wide = tuned_tiles::select(request);
                ASSERT_TRUE(fits(wide)) << wide.kv_cols << " for head_dim " << head_dim;
                ASSERT_TRUE(wide.q_rows >= lanes && wide.q_rows <= 4 * lanes && wide.q_rows % lanes == 0) << wide.q_rows;
                request.narrow = true;
                ASSERT_TRUE(fits(tuned_tiles::select(request))) << "narrow, head_dim " << head_dim;
            }
        }
    }
}

TEST(Tune, NumbersAreUsable) { static_assert(imbrex::tune::narrow_rows >= 1 && imbrex::tune::copy_from_row_tiles >= 1); }

}    // namespace
