// eigen.hpp: attention on views of Eigen's objects gives what Eigen computes.
#include "imbrex/eigen.hpp"

#include <cmath>
#include <string_view>

#include <gtest/gtest.h>
#include <unsupported/Eigen/CXX11/Tensor>

#include "imbrex/imbrex.hpp"

namespace {

using imbrex::axis_order;
using imbrex::dense_kv;
using imbrex::errc;
using imbrex::index;
using imbrex::status;
using imbrex::view_of;

template <class T>
using row_matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using rows = row_matrix<float>;
using columns = Eigen::MatrixXf;
template <int Layout>
using tensor = Eigen::Tensor<float, 4, Layout>;

// One head, in f64, by Eigen.
Eigen::MatrixXd plain_attention(Eigen::MatrixXd const& q, Eigen::MatrixXd const& k, Eigen::MatrixXd const& v) {
    Eigen::MatrixXd weights = q * k.transpose() / std::sqrt(static_cast<double>(q.cols()));
    weights.colwise() -= weights.rowwise().maxCoeff().eval();
    weights = weights.array().exp().matrix().eval();
    Eigen::VectorXd const sums = weights.rowwise().sum();
    return (weights.array().colwise() / sums.array()).matrix() * v;
}

template <class Q, class K, class V, class O>
status call(Q const& q, K const& k, V const& v, O const& out) {
    return imbrex::attention(q, dense_kv{k, v}, out, imbrex::full{}, {.workspace = imbrex::allocate{}});
}

TEST(EigenCall, OneHeadOfRowMajorMatrices) {
    rows const q = rows::Random(9, 24), k = rows::Random(31, 24), v = rows::Random(31, 17);
    rows out(9, 17);
    status const s = call(view_of(q), view_of(k), view_of(v), view_of(out));
    ASSERT_TRUE(s.ok()) << s.message().c_str();
    EXPECT_LT((out.cast<double>() - plain_attention(q.cast<double>(), k.cast<double>(), v.cast<double>())).cwiseAbs().maxCoeff(),
              2e-6);
}

TEST(EigenCall, TokensInTheColumnsOfColumnMajorMatrices) {
    columns const q = columns::Random(24, 9), k = columns::Random(24, 31), v = columns::Random(17, 31);
    columns out(17, 9);
    status const s = call(view_of(q.transpose()), view_of(k.transpose()), view_of(v.transpose()), view_of(out.transpose()));
    ASSERT_TRUE(s.ok()) << s.message().c_str();
    Eigen::MatrixXd const expected =
        plain_attention(q.transpose().cast<double>(), k.transpose().cast<double>(), v.transpose().cast<double>());
    EXPECT_LT((out.transpose().cast<double>() - expected).cwiseAbs().maxCoeff(), 2e-6);
}

TEST(EigenCall, PackedProjectionWithGroupedHeads) {
    constexpr index heads = 6, kv_heads = 2, dim = 16, tokens = 21;
    rows const qkv = rows::Random(tokens, (heads + 2 * kv_heads) * dim);
    rows out(tokens, heads * dim);
    auto const q = qkv.leftCols(heads * dim);
    auto const k = qkv.middleCols(heads * dim, kv_heads * dim), v = qkv.rightCols(kv_heads * dim);
    status const s = call(view_of(q, heads), view_of(k, kv_heads), view_of(v, kv_heads), view_of(out, heads));
    ASSERT_TRUE(s.ok()) << s.message().c_str();
    for (index head = 0; head < heads; ++head) {
        index const kv_head = head / (heads / kv_heads);
        Eigen::MatrixXd const expected =
            plain_attention(q.middleCols(head * dim, dim).cast<double>(), k.middleCols(kv_head * dim, dim).cast<double>(),
                            v.middleCols(kv_head * dim, dim).cast<double>());
        EXPECT_LT((out.middleCols(head * dim, dim).cast<double>() - expected).cwiseAbs().maxCoeff(), 2e-6) << "head " << head;
    }
}

TEST(EigenCall, Bfloat16KvAndOutputUnderAnF32Query) {
    rows const q = rows::Random(12, 32);
    row_matrix<Eigen::bfloat16> const k = rows::Random(40, 32).cast<Eigen::bfloat16>(),
                                      v = rows::Random(40, 32).cast<Eigen::bfloat16>();
    row_matrix<Eigen::bfloat16> out(12, 32);
    status const s = call(view_of(q), view_of(k), view_of(v), view_of(out));
    ASSERT_TRUE(s.ok()) << s.message().c_str();
    Eigen::MatrixXd const expected =
        plain_attention(q.cast<double>(), k.cast<float>().cast<double>(), v.cast<float>().cast<double>());
    EXPECT_LT((out.cast<float>().cast<double>() - expected).cwiseAbs().maxCoeff(), 0x1p-8);    // half an ulp of numbers below 1
}

TEST(EigenCall, TensorsOfBothLayoutsAndOrdersAgree) {
    constexpr index batch = 2, tokens = 7, heads = 3, dim = 10;
    auto const fill = [](auto& t, auto at) {
        for (index b = 0; b < batch; ++b)
            for (index i = 0; i < tokens; ++i)
                for (index h = 0; h < heads; ++h)
                    for (index d = 0; d < dim; ++d)
                        at(t, b, i, h, d) = std::sin(static_cast<float>(((b * tokens + i) * heads + h) * dim + d));
    };
    auto const bthd = [](auto& t, index b, index i, index h, index d) -> auto& { return t(b, i, h, d); };
    auto const reversed = [](auto& t, index b, index i, index h, index d) -> auto& { return t(d, i, h, b); };
    tensor<Eigen::RowMajor> a(batch, tokens, heads, dim), a_out(batch, tokens, heads, dim);
    tensor<Eigen::ColMajor> c(dim, tokens, heads, batch), c_out(dim, tokens, heads, batch);
    fill(a, bthd);
    fill(c, reversed);
    ASSERT_TRUE(call(view_of(a), view_of(a), view_of(a), view_of(a_out)).ok());
    auto const order = axis_order::batch_head_token_dim;
    ASSERT_TRUE(call(view_of(c, order), view_of(c, order), view_of(c, order), view_of(c_out, order)).ok());
    for (index b = 0; b < batch; ++b)
        for (index i = 0; i < tokens; ++i)
            for (index h = 0; h < heads; ++h)
                for (index d = 0; d < dim; ++d) ASSERT_EQ(a_out(b, i, h, d), c_out(d, i, h, b));
    Eigen::MatrixXd head(tokens, dim), result(tokens, dim);
    for (index i = 0; i < tokens; ++i)
        for (index d = 0; d < dim; ++d) {
            head(i, d) = a(1, i, 2, d);
            result(i, d) = a_out(1, i, 2, d);
        }
    EXPECT_LT((result - plain_attention(head, head, head)).cwiseAbs().maxCoeff(), 2e-6);
}

TEST(EigenCall, ColumnMajorTokensAreRefusedInOneSentence) {
    columns const q = columns::Random(9, 24);
    rows const k = rows::Random(31, 24);
    rows out = rows::Constant(9, 24, -7.f);
    status const s = call(view_of(q), view_of(k), view_of(k), view_of(out));
    EXPECT_EQ(s.code(), errc::dim_stride);
    EXPECT_NE(s.message().view().find("query has stride 9 along head_dim"), std::string_view::npos) << s.message().c_str();
    EXPECT_EQ(out, rows::Constant(9, 24, -7.f));
}

TEST(EigenCall, HeadsThatDoNotDivideTheColumnsAreRefused) {
    rows const m = rows::Random(4, 10);
    rows out = rows::Constant(4, 10, -7.f);
    for (index const heads : {3, 0, -2, 11}) {
        status const s = call(view_of(m, heads), view_of(m, heads), view_of(m, heads), view_of(out, heads));
        EXPECT_FALSE(s.ok()) << heads;
        EXPECT_EQ(out, rows::Constant(4, 10, -7.f));
    }
    EXPECT_EQ(call(view_of(m, 3), view_of(m, 3), view_of(m, 3), view_of(out, 3)).code(), errc::head_dim_range);
}

}    // namespace
