// Fixed tiles in f32: the smallest, the largest, and odd ones that no tuned number would ask for.
#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;
using imbrex::fixed_tiles;
using imbrex::tile_shape;

constexpr index W = imbrex::lane_count<float>;
constexpr index most = imbrex::wide_geometry<float>::max_rows;

template <class Tiles>
class AttentionTiles : public Seeded {};

using tilings = testing::Types<fixed_tiles<tile_shape{W, 16}>, fixed_tiles<tile_shape{2 * W, 48}>, fixed_tiles<tile_shape{W, 112}>,
                               fixed_tiles<tile_shape{most, 16}>, fixed_tiles<tile_shape{most, 80}>,
                               fixed_tiles<tile_shape{most, imbrex::max_kv_cols}>>;

struct tiling_names {
    template <class Tiles>
    static std::string GetName(int) {
        tile_shape const t = Tiles::select({});
        return std::to_string(t.q_rows) + "x" + std::to_string(t.kv_cols);
    }
};
TYPED_TEST_SUITE(AttentionTiles, tilings, tiling_names);

TYPED_TEST(AttentionTiles, MatchF64OnTheWideUnit) {
    tile_shape const tiles = TypeParam::select({});
    for (rule const r : {rule::full, rule::top_left, rule::bottom_right}) {
        for (index const q : {tiles.q_rows - 1, tiles.q_rows + 1, index{113}}) {
            for (index const kv : {index{1}, tiles.kv_cols - 1, tiles.kv_cols, tiles.kv_cols + 1, index{203}}) {
                this->template expect_right<f32, TypeParam>(
                    {.q_tokens = q, .kv_tokens = kv, .q_heads = 3, .kv_heads = 1, .head_dim = 24, .sees = r}, accuracy::strict);
            }
        }
    }
}

TYPED_TEST(AttentionTiles, MatchF64OnTheNarrowUnit) {
    index const cols = TypeParam::select({}).kv_cols;
    for (rule const r : {rule::full, rule::bottom_right}) {
        for (index const rows : {1, 2, 3, 4}) {
            for (index const kv : {index{1}, cols - 1, cols, cols + 1, index{203}, 2 * cols + 5}) {
                this->template expect_right<f32, TypeParam>({.q_tokens = rows, .kv_tokens = kv, .head_dim = 40, .sees = r}, accuracy::strict);
            }
        }
    }
}

TYPED_TEST(AttentionTiles, AreTheOnesThatThePlanSaysItRuns) {
    imbrex::plan p;
    ASSERT_OK((imbrex::make_plan<f32, TypeParam>({.q_tokens = 100, .kv_tokens = 100, .head_dim = 24}, p)));
    tile_shape const t = TypeParam::select({});
    std::string const shape = std::to_string(t.q_rows) + " x " + std::to_string(t.kv_cols);
    EXPECT_NE(imbrex::path_of(p).view().find(shape), std::string_view::npos) << imbrex::path_of(p).c_str();
    EXPECT_EQ(p.wide_tiles, t);
    EXPECT_EQ(p.narrow_kv_cols, t.kv_cols);
}

}    // namespace
}    // namespace imbrex_test
