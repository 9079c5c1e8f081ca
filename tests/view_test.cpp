// view.hpp: where each row of a tensor lies, for each memory order.
#include "imbrex/view.hpp"

#include <cstddef>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace {

using imbrex::index;
using imbrex::shape4;
using imbrex::strides4;
using imbrex::tensor_view;

constexpr shape4 shape{.batch = 2, .tokens = 5, .heads = 3, .head_dim = 4};

// Checks that the rows tile a contiguous buffer: each element is met once, and none lies outside.
void expect_rows_tile_the_buffer(tensor_view<int> view, std::vector<int>& buffer) {
    ASSERT_EQ(static_cast<index>(buffer.size()), view.shape.elements());
    for (index b = 0; b < view.shape.batch; ++b)
        for (index token = 0; token < view.shape.tokens; ++token)
            for (index head = 0; head < view.shape.heads; ++head)
                for (index d = 0; d < view.shape.head_dim; ++d) {
                    index const offset = view.row(b, token, head) + d - buffer.data();
                    ASSERT_TRUE(offset >= 0 && offset < view.shape.elements()) << offset;
                    ++buffer[static_cast<std::size_t>(offset)];
                }
    EXPECT_EQ(buffer, std::vector<int>(buffer.size(), 1));
}

TEST(View, BshdStridesFollowBatchTokenHeadDim) {
    constexpr auto view = imbrex::bshd(static_cast<int*>(nullptr), shape);
    static_assert(view.strides == strides4{.batch = 60, .token = 12, .head = 4, .dim = 1});
    static_assert(view.shape == shape && view.shape.elements() == 120);
}

TEST(View, BhsdStridesFollowBatchHeadTokenDim) {
    constexpr auto view = imbrex::bhsd(static_cast<int*>(nullptr), shape);
    static_assert(view.strides == strides4{.batch = 60, .token = 4, .head = 20, .dim = 1});
    static_assert(view.shape == shape);    // the shape's order stays batch, tokens, heads, head_dim
}

TEST(View, ContiguousRowsTileTheBuffer) {
    for (shape4 const s : {shape, shape4{1, 1, 1, 1}, shape4{1, 7, 1, 3}, shape4{4, 1, 2, 5}}) {
        std::vector<int> buffer(static_cast<std::size_t>(s.elements()));
        expect_rows_tile_the_buffer(imbrex::bshd(buffer.data(), s), buffer);
        buffer.assign(buffer.size(), 0);
        expect_rows_tile_the_buffer(imbrex::bhsd(buffer.data(), s), buffer);
    }
}

TEST(View, BothOrdersAgreeWhenOneOfTokensAndHeadsIsOne) {
    std::vector<int> buffer(64);
    for (shape4 const s : {shape4{2, 1, 4, 8}, shape4{2, 4, 1, 8}}) {
        auto const a = imbrex::bshd(buffer.data(), s);
        auto const b = imbrex::bhsd(buffer.data(), s);
        for (index token = 0; token < s.tokens; ++token)
            for (index head = 0; head < s.heads; ++head) EXPECT_EQ(a.row(1, token, head), b.row(1, token, head));
    }
}

TEST(View, StridesOfAxesOfSizeOneAreNeverUsed) {
    int element = 7;
    constexpr index anything = 1'000'000'007;
    auto const view = imbrex::strided(&element, shape4{1, 1, 1, 1}, strides4{anything, anything, -anything});
    EXPECT_EQ(view.row(0, 0, 0), &element);
}

TEST(View, StridedReachesTheSlicesOfAPackedQkvBuffer) {
    constexpr index tokens = 3, heads = 2, dim = 4;
    std::vector<int> packed(tokens * 3 * heads * dim);    // token, (q k v), head, dim
    for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<int>(i);
    strides4 const strides{.batch = tokens * 3 * heads * dim, .token = 3 * heads * dim, .head = dim};
    auto const key = imbrex::strided(packed.data() + heads * dim, shape4{1, tokens, heads, dim}, strides);
    EXPECT_EQ(key.strides.dim, 1);
    EXPECT_EQ(*key.row(0, 0, 0), 8);
    EXPECT_EQ(*key.row(0, 2, 1), 2 * 24 + 8 + 4);
}

TEST(View, AZeroStrideRepeatsAnAxisAndANegativeOneReversesIt) {
    std::vector<int> data{0, 1, 2, 3, 4, 5};
    auto const expanded = imbrex::strided(data.data(), shape4{9, 3, 4, 2}, strides4{.batch = 0, .token = 2, .head = 0});
    EXPECT_EQ(expanded.row(8, 1, 3), data.data() + 2);
    auto const reversed = imbrex::strided(data.data() + 4, shape4{1, 3, 1, 2}, strides4{.batch = 0, .token = -2, .head = 0});
    EXPECT_EQ(*reversed.row(0, 2, 0), 0);
}

TEST(View, OffsetsAndSizesPassThirtyTwoBits) {
    constexpr shape4 huge{.batch = 4, .tokens = 1 << 20, .heads = 32, .head_dim = 128};
    static_assert(huge.elements() == index{1} << 34);
    static_assert(imbrex::bshd(static_cast<char*>(nullptr), huge).strides.batch == index{1} << 32);
    static_assert(imbrex::bhsd(static_cast<char*>(nullptr), huge).strides.batch == index{1} << 32);
    constexpr shape4 longest{.batch = 4, .tokens = imbrex::max_length, .heads = 32, .head_dim = 1};
    static_assert(imbrex::bhs(static_cast<float*>(nullptr), longest).batch_stride == 32 * imbrex::max_length);
}

TEST(View, EmptyAxesGiveNoElements) {
    static_assert(shape4{}.elements() == 0 && shape4{2, 0, 3, 4}.elements() == 0);
    EXPECT_EQ(imbrex::bhsd(static_cast<int*>(nullptr), shape4{2, 0, 3, 4}).strides.head, 0);
}

TEST(View, AViewConvertsToAConstViewButNotBack) {
    static_assert(std::is_convertible_v<tensor_view<float>, tensor_view<float const>>);
    static_assert(!std::is_convertible_v<tensor_view<float const>, tensor_view<float>>);
    static_assert(!std::is_convertible_v<tensor_view<float>, tensor_view<double const>>);
    std::vector<int> buffer(120);
    tensor_view<int const> const view = imbrex::bhsd(buffer.data(), shape);
    EXPECT_EQ(view.row(1, 2, 0), buffer.data() + 68);
    EXPECT_EQ(view.shape, shape);
}

TEST(View, ViewsCrossTranslationUnitsAsPlainValues) {
    static_assert(std::is_trivially_copyable_v<tensor_view<float>> && std::is_standard_layout_v<tensor_view<float>>);
    static_assert(std::is_trivially_copyable_v<imbrex::row_stats_view<float>>);
}

TEST(RowStatsView, BhsIsContiguousInBatchHeadToken) {
    std::vector<float> stats(2 * 3 * 5);
    auto const view = imbrex::bhs(stats.data(), shape);
    index expected = 0;
    for (index b = 0; b < shape.batch; ++b)
        for (index head = 0; head < shape.heads; ++head)
            for (index token = 0; token < shape.tokens; ++token) EXPECT_EQ(view.at(b, head, token), stats.data() + expected++);
}

TEST(RowStatsView, DefaultIsNotWanted) {
    static_assert(imbrex::row_stats_view<float>{}.data == nullptr);
}

}    // namespace
