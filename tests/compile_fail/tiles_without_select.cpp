// expect: imbrex: the tile policy lacks a static select\(tile_request\) that returns a tile_shape; use fixed_tiles
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
using tiles = imbrex::tile_shape;
#else
using tiles = imbrex::fixed_tiles<imbrex::tile_shape{16, 64}>;
#endif

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention<tiles>(q, imbrex::dense_kv{q, q}, out);
}
