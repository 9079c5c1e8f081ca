// eigen.hpp: each view reaches the element that Eigen's own indices name, and is as const as its object.
#include "imbrex/eigen.hpp"

#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unsupported/Eigen/CXX11/Tensor>

namespace {

using imbrex::axis_order;
using imbrex::bf16;
using imbrex::f16;
using imbrex::index;
using imbrex::shape4;
using imbrex::tensor_view;
using imbrex::view_of;

template <class T>
using row_matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using rows = row_matrix<float>;
using columns = Eigen::MatrixXf;

template <class T, class View>
constexpr bool views = std::is_same_v<std::remove_cvref_t<View>, tensor_view<T>>;

rows numbered(index tokens, index width) {
    rows m(tokens, width);
    for (index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(i);
    return m;
}

// m(token, head * head_dim + d) is what the view has at (0, token, head) + d * dim.
template <class View, class M>
void expect_shows(View const& v, M const& m, index heads) {
    index const head_dim = m.cols() / heads;
    ASSERT_EQ(v.shape, (shape4{1, m.rows(), heads, head_dim}));
    for (index token = 0; token < m.rows(); ++token)
        for (index head = 0; head < heads; ++head)
            for (index d = 0; d < head_dim; ++d)
                ASSERT_EQ(v.row(0, token, head)[d * v.strides.dim], m(token, head * head_dim + d));
}

TEST(EigenMatrix, IsOneHeadOfRowsByHeadDim) {
    rows const m = numbered(5, 6);
    expect_shows(view_of(m), m, 1);
    Eigen::Matrix<double, 3, 4, Eigen::RowMajor> const fixed = Eigen::Matrix<double, 3, 4, Eigen::RowMajor>::Random();
    expect_shows(view_of(fixed), fixed, 1);
}

TEST(EigenMatrix, HoldsHeadsSideBySide) {
    rows const m = numbered(5, 12);
    for (index const heads : {1, 2, 3, 4, 6, 12}) expect_shows(view_of(m, heads), m, heads);
}

TEST(EigenMatrix, RowVectorIsOneTokenAndColumnVectorHasAHeadDimOfOne) {
    Eigen::RowVectorXf const row = Eigen::RowVectorXf::Random(8);
    Eigen::VectorXf const column = Eigen::VectorXf::Random(8);
    EXPECT_EQ(view_of(row).shape, (shape4{1, 1, 1, 8}));
    EXPECT_EQ(view_of(row, 4).shape, (shape4{1, 1, 4, 2}));
    EXPECT_EQ(view_of(column).shape, (shape4{1, 8, 1, 1}));
    expect_shows(view_of(row, 4), row, 4);
    expect_shows(view_of(column), column, 1);
}

TEST(EigenMatrix, MapsAndTheirOuterStridesAreHonoured) {
    std::vector<float> memory(5 * 10, -1.f);
    Eigen::Map<rows, 0, Eigen::OuterStride<>> strided(memory.data(), 5, 6, Eigen::OuterStride<>(10));
    strided = numbered(5, 6);
    EXPECT_EQ(view_of(strided).strides.token, 10);
    expect_shows(view_of(strided), strided, 1);
    expect_shows(view_of(strided, 3), strided, 3);
    Eigen::Map<rows const> const whole(memory.data(), 5, 10);
    expect_shows(view_of(whole, 2), whole, 2);
}

TEST(EigenMatrix, RefsAndBlocksAreSeenInPlace) {
    rows m = numbered(7, 12);
    Eigen::Ref<rows> const part = m.middleCols(4, 4);
    EXPECT_EQ(view_of(part).data, m.data() + 4);
    EXPECT_EQ(view_of(part).strides.token, 12);
    expect_shows(view_of(part, 2), part, 2);
    expect_shows(view_of(m.bottomRows(3)), m.bottomRows(3), 1);
    expect_shows(view_of(m.block(1, 2, 3, 4), 2), m.block(1, 2, 3, 4), 2);
    auto query = view_of(m.leftCols(4), 2);    // a slice of a packed projection, to be written to
    query.row(0, 1, 1)[0] = -5.f;
    EXPECT_EQ(m(1, 2), -5.f);
}

TEST(EigenMatrix, ColumnMajorShowsItsStridesAndItsTransposeIsContiguous) {
    columns const m = columns::Random(6, 5);
    EXPECT_EQ(view_of(m).strides.dim, 6);
    expect_shows(view_of(m), m, 1);
    EXPECT_EQ(view_of(m.transpose()).strides.dim, 1);
    expect_shows(view_of(m.transpose()), m.transpose(), 1);
    expect_shows(view_of(m.transpose(), 3), m.transpose(), 3);
}

TEST(EigenMatrix, ReversedRowsHaveANegativeStride) {
    rows const m = numbered(4, 3);
    Eigen::Map<rows const, 0, Eigen::Stride<Eigen::Dynamic, 1>> const reversed(m.data() + 9, 4, 3,
                                                                               Eigen::Stride<Eigen::Dynamic, 1>(-3, 1));
    EXPECT_EQ(view_of(reversed).strides.token, -3);
    expect_shows(view_of(reversed), reversed, 1);
}

TEST(EigenMatrix, ViewsAreAsConstAsTheirObjects) {
    rows m(2, 2);
    rows const constant(2, 2);
    Eigen::Map<rows> map(m.data(), 2, 2);
    Eigen::Map<rows const> const_map(m.data(), 2, 2);
    Eigen::Ref<rows> ref(m);
    Eigen::Ref<rows const> const const_ref(m);
    static_assert(views<float, decltype(view_of(m))> && views<float const, decltype(view_of(constant))>);
    static_assert(views<float, decltype(view_of(map))> && views<float const, decltype(view_of(const_map, 2))>);
    static_assert(views<float, decltype(view_of(ref, 1))> && views<float const, decltype(view_of(const_ref))>);
    static_assert(views<float, decltype(view_of(m.leftCols(1)))> && views<float const, decltype(view_of(constant.leftCols(1)))>);
    static_assert(views<float, decltype(view_of(m.transpose()))> && views<float const, decltype(view_of(constant.transpose()))>);
    static_assert(views<float, decltype(view_of(Eigen::Map<rows>(m.data(), 2, 2)))>);    // a temporary map owns nothing
}

TEST(EigenMatrix, HalfAndBfloat16BecomeTheLibrarysOwnBitForBit) {
    row_matrix<Eigen::half> half(1, 4);
    row_matrix<Eigen::bfloat16> brain(1, 4);
    float const values[] = {1.5f, -0.1f, 65504.f, 6e-8f};
    for (int i = 0; i < 4; ++i) {
        half(0, i) = Eigen::half(values[i]);
        brain(0, i) = Eigen::bfloat16(values[i]);
    }
    static_assert(views<f16, decltype(view_of(half))> && views<bf16, decltype(view_of(brain))>);
    static_assert(views<f16 const, decltype(view_of(std::as_const(half)))> &&
                  views<bf16 const, decltype(view_of(std::as_const(brain), 2))>);
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(view_of(half).data[i].bits, f16(values[i]).bits);
        EXPECT_EQ(view_of(brain).data[i].bits, bf16(values[i]).bits);
        EXPECT_EQ(imbrex::to_float(view_of(half).data[i]), static_cast<float>(half(0, i)));
    }
    view_of(brain).data[2] = bf16(-3.f);
    EXPECT_EQ(static_cast<float>(brain(0, 2)), -3.f);
    static_assert(views<double, decltype(view_of(std::declval<Eigen::MatrixXd&>()))>);
}

template <int Layout>
using tensor = Eigen::Tensor<float, 4, Layout>;

template <class Tensor>
Tensor numbered_tensor(index a, index b, index c, index d) {
    Tensor t(a, b, c, d);
    for (index i = 0; i < t.size(); ++i) t.data()[i] = static_cast<float>(i);
    return t;
}

// at(batch, token, head, dim) names the tensor's own element.
template <class View, class At>
void expect_shows_tensor(View const& v, shape4 const& shape, At at) {
    ASSERT_EQ(v.shape, shape);
    EXPECT_EQ(v.strides.dim, 1);
    for (index b = 0; b < shape.batch; ++b)
        for (index token = 0; token < shape.tokens; ++token)
            for (index head = 0; head < shape.heads; ++head)
                for (index d = 0; d < shape.head_dim; ++d) ASSERT_EQ(v.row(b, token, head)[d], at(b, token, head, d));
}

constexpr shape4 small{2, 3, 4, 5};

TEST(EigenTensor, RowMajorIsBatchTokenHeadDimUnlessSaidOtherwise) {
    auto const t = numbered_tensor<tensor<Eigen::RowMajor>>(2, 3, 4, 5);
    auto const at = [&](index b, index token, index head, index d) { return t(b, token, head, d); };
    expect_shows_tensor(view_of(t), small, at);
    expect_shows_tensor(view_of(t, axis_order::batch_token_head_dim), small, at);
}

TEST(EigenTensor, RowMajorMayBeBatchHeadTokenDim) {
    auto const t = numbered_tensor<tensor<Eigen::RowMajor>>(2, 4, 3, 5);
    expect_shows_tensor(view_of(t, axis_order::batch_head_token_dim), small,
                        [&](index b, index token, index head, index d) { return t(b, head, token, d); });
}

TEST(EigenTensor, ColMajorCountsItsAxesFromTheLast) {
    auto const t = numbered_tensor<tensor<Eigen::ColMajor>>(5, 4, 3, 2);
    expect_shows_tensor(view_of(t), small, [&](index b, index token, index head, index d) { return t(d, head, token, b); });
    auto const u = numbered_tensor<tensor<Eigen::ColMajor>>(5, 3, 4, 2);
    expect_shows_tensor(view_of(u, axis_order::batch_head_token_dim), small,
                        [&](index b, index token, index head, index d) { return u(d, token, head, b); });
}

TEST(EigenTensor, MapsAndFixedSizesAreSeenInPlace) {
    auto t = numbered_tensor<tensor<Eigen::RowMajor>>(2, 3, 4, 5);
    Eigen::TensorMap<tensor<Eigen::RowMajor>> const map(t.data(), 2, 3, 4, 5);
    expect_shows_tensor(view_of(map), small, [&](index b, index token, index head, index d) { return t(b, token, head, d); });
    EXPECT_EQ(view_of(Eigen::TensorMap<tensor<Eigen::RowMajor>>(t.data(), 2, 3, 4, 5)).data, t.data());
    Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3, 4, 5>, Eigen::RowMajor> fixed;
    fixed = t;
    expect_shows_tensor(view_of(fixed), small, [&](index b, index token, index head, index d) { return t(b, token, head, d); });
}

TEST(EigenTensor, ViewsAreAsConstAsTheirObjectsAndOfTheLibrarysTypes) {
    tensor<Eigen::RowMajor> t(1, 1, 1, 1);
    tensor<Eigen::RowMajor> const constant(1, 1, 1, 1);
    Eigen::TensorMap<tensor<Eigen::ColMajor> const> const_map(constant.data(), 1, 1, 1, 1);
    Eigen::Tensor<Eigen::bfloat16, 4> brain(1, 1, 1, 1);
    Eigen::Tensor<Eigen::half, 4> const half(1, 1, 1, 1);
    static_assert(views<float, decltype(view_of(t))> && views<float const, decltype(view_of(constant))>);
    static_assert(views<float const, decltype(view_of(const_map))>);
    static_assert(views<bf16, decltype(view_of(brain))> && views<f16 const, decltype(view_of(half))>);
}

TEST(EigenTensor, OfAnotherRankIsNoFourAxes) {
    static_assert(!imbrex::eigen_detail::eigen_tensor<Eigen::Tensor<float, 3>> &&
                  !imbrex::eigen_detail::eigen_tensor<Eigen::Tensor<float, 5>>);
    static_assert(!imbrex::eigen_detail::eigen_tensor<rows> && !imbrex::eigen_detail::eigen_dense<tensor<0>>);
    static_assert(imbrex::eigen_detail::eigen_tensor<tensor<0>> && imbrex::eigen_detail::eigen_dense<rows>);
}

}    // namespace
