// rules/block_sparse.hpp: blocks that count not at all, in full, or as another mask says.
#include "imbrex/rules/block_sparse.hpp"

#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::block_sparse;
using imbrex::causal;
using imbrex::score_matrix;
using imbrex::score_shape;
using imbrex::score_view;

using blocks = std::vector<std::uint8_t>;
constexpr causal diagonal{align::bottom_right};

index blocks_of(index tokens, index size) { return (tokens + size - 1) / size; }

TEST(BlockSparse, SeesWholeBlocks) {
    blocks const b{1, 0, 0, 1, 1, 0};
    EXPECT_EQ(picture(block_sparse{score_matrix(b.data(), {1, 1, 2, 3}), 2, 2}, 3, 5), (rows{"11000", "11000", "11110"}));
}

TEST(BlockSparse, AsksTheInnerMaskInPartialBlocksOnly) {
    blocks const b{2, 1, 0, 2};
    EXPECT_EQ(picture(block_sparse{score_matrix(b.data(), {1, 1, 2, 2}), 2, 2, diagonal}, 4, 4), (rows{"1011", "1111", "0010", "0011"}));
}

TEST(BlockSparse, CountsQueriesFromTheFirstOfTheCall) {
    blocks const b{1, 0};
    EXPECT_EQ(picture(block_sparse{score_matrix(b.data(), {1, 1, 2, 1}), 2, 4}, 4, 2), (rows{"11", "11", "00", "00"}));
    EXPECT_EQ(picture(block_sparse{score_matrix(b.data(), {1, 1, 2, 1}), 1, 8}, 2, 8), (rows{"11111111", "00000000"}));
}

TEST(BlockSparse, ShortcutsAndLanesAgreeWithKeep) {
    for (int const values : {1, 2, 3}) {    // nothing; none and full; all
        for (auto const& [q_block, kv_block] : {std::pair{1, 1}, {2, 3}, {3, 2}, {4, 4}, {7, 2}, {100, 100}}) {
            for (int const ones : {0, 1, 2, 3, 7, 11}) {
                SCOPED_TRACE(testing::Message() << values << " values, blocks of " << q_block << " x " << kv_block << ", axes of one " << ones);
                std::mt19937 engine{17};
                blocks b(batches * q_heads * longest * longest);
                for (auto& x : b) x = static_cast<std::uint8_t>(engine() % static_cast<unsigned>(values));
                auto const view_for = [&, q = q_block, kv = kv_block](head_context const& ctx) -> score_view<std::uint8_t const> {
                    score_shape const s{ones & 1 ? 1 : batches, ones & 2 ? 1 : q_heads, ones & 4 ? 1 : blocks_of(ctx.q_len, q),
                                        ones & 8 ? 1 : blocks_of(ctx.kv_len, kv)};
                    return score_matrix(b.data(), s);
                };
                auto const make = [&, q = q_block, kv = kv_block](head_context const& ctx) { return block_sparse{view_for(ctx), q, kv, diagonal}; };
                expect_classify_agrees(make, shortcut::exact);
                expect_bounds_agree(make, shortcut::sound);
                if (values == 3 && ones % 3 != 0) continue;
                expect_lanes_agree<float>(make);
                expect_lanes_agree<double>(make);
            }
        }
    }
}

TEST(BlockSparse, BoundsReachFromTheFirstVisibleBlockToTheLast) {
    blocks const b{0, 1, 0, 2, 0, 0, 0, 1, 0, 0};
    block_sparse const rule{score_matrix(b.data(), {1, 1, 2, 5}), 4, 4};
    head_context const ctx{0, 8, 18};
    auto const bounds = [&](position first, position last) { return rule.kv_bounds(ctx, 10 + first, 10 + last); };
    EXPECT_TRUE(bounds(0, 3).begin == 4 && bounds(0, 3).end == 16);
    EXPECT_TRUE(bounds(4, 7).begin == 8 && bounds(4, 7).end == 12);
    EXPECT_TRUE(bounds(3, 4).begin == 4 && bounds(3, 4).end == 16);
    blocks const none(10, 0);
    kv_range const empty = block_sparse{score_matrix(none.data(), {1, 1, 2, 5}), 4, 4}.kv_bounds(ctx, 10, 17);
    EXPECT_GE(empty.begin, empty.end);
}

TEST(BlockSparse, RefusesOtherShapesAndValues) {
    blocks b{0, 1, 2, 0, 1, 2};
    auto const status_of = [&](score_shape s, index q, index kv) { return check(block_sparse{score_matrix(b.data(), s), q, kv}, {2, 2, 100, 300}); };
    EXPECT_TRUE(status_of({1, 1, 1, 3}, 64, 128).ok() && status_of({1, 1, 2, 3}, 64, 128).ok() && status_of({1, 2, 1, 3}, 128, 128).ok());
    EXPECT_STATUS(status_of({1, 1, 2, 2}, 64, 128), rule_axis);
    EXPECT_STATUS(status_of({1, 1, 3, 2}, 64, 256), rule_axis);
    EXPECT_STATUS(status_of({3, 1, 1, 1}, 64, 128), rule_axis);
    EXPECT_STATUS(status_of({1, 1, 2, 3}, 0, 128), rule_value);
    EXPECT_STATUS(status_of({1, 1, 2, 3}, 64, -1), rule_value);
    b[4] = 3;
    EXPECT_STATUS(status_of({1, 1, 2, 3}, 64, 128), rule_value);
    EXPECT_EQ(status_of({1, 1, 2, 3}, 64, 128).value(2), 4) << "which block";
    EXPECT_STATUS(check(block_sparse{score_matrix<std::uint8_t const>(nullptr, {1, 1, 1, 3}), 128, 128}, {1, 1, 5, 300}), rule_too_short);
}

struct refuses {
    template <class Q, class K>
    auto keep(head_context const&, Q const& q, K const& kv) const {
        return kv <= q;
    }
    coverage classify(head_context const&, tile_window const&) const { return coverage::partial; }
    imbrex::status check(imbrex::call_shape const&) const { return {imbrex::errc::rule_value, 0, 0, 0}; }
};

TEST(BlockSparse, ChecksItsInnerMask) {
    blocks const b{1};
    EXPECT_STATUS(check(block_sparse{score_matrix(b.data(), {1, 1, 1, 1}), 8, 8, refuses{}}, {1, 1, 8, 8}), rule_value);
}

}    // namespace
}    // namespace imbrex_test
