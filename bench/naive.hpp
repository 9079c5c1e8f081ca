// Attention as a user of Eigen writes it today, one head after another, with the whole matrix of scores in memory.
//   obvious  the formula, line by line; a fresh matrix for every step
//   careful  buffers kept between calls, on the same pages as the tensors; softmax row by row while a row is in cache, and only
//   over the
//            keys that it sees
// A causal rule costs both the full products, and a mask: that is what products of whole matrices can do.
#pragma once

#include <limits>
#include <memory>
#include <type_traits>

#include <Eigen/Core>

#include "problem.hpp"

namespace imbrex_bench {

using naive_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Eigen's type of the same bits, for its own vectorised conversions.
template <class T>
using eigen_scalar = std::conditional_t<std::is_same_v<T, imbrex::bf16>, Eigen::bfloat16,
                                        std::conditional_t<std::is_same_v<T, imbrex::f16>, Eigen::half, T>>;

// One head as a matrix of tokens x head_dim, where it lies.
template <class T>
auto head_matrix(imbrex::tensor_view<T> t, index batch, index head) {
    using scalar = eigen_scalar<std::remove_const_t<T>>;
    using matrix = Eigen::Matrix<scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using mapped = std::conditional_t<std::is_const_v<T>, matrix const, matrix>;
    using element = std::conditional_t<std::is_const_v<T>, scalar const, scalar>;
    return Eigen::Map<mapped, Eigen::Unaligned, Eigen::OuterStride<>>(reinterpret_cast<element*>(t.row(batch, 0, head)),
                                                                      t.shape.tokens, t.shape.head_dim,
                                                                      Eigen::OuterStride<>(t.strides.token));
}

template <class T>
struct naive_attention {
    shape dims;
    imbrex::tensor_view<T const> q, k, v;
    imbrex::tensor_view<T> out;
    float scale;
    std::unique_ptr<page_memory> buffers;    // of the careful form, on the same pages as the tensors

    naive_attention(shape const& s, imbrex::tensor_view<T const> q_view, imbrex::dense_kv<T> const& kv,
                    imbrex::tensor_view<T> out_view)
        : dims{s}, q{q_view}, k{kv.k}, v{kv.v}, out{out_view}, scale{1.0f / std::sqrt(static_cast<float>(s.head_dim))} {
        buffers =
            std::make_unique<page_memory>((scores_size() + q_size() + kv_size()) * static_cast<index>(sizeof(float)), s.page);
    }

    index heads() const { return dims.batch * dims.q_heads; }
    index extra_bytes() const { return scores_size() * static_cast<index>(sizeof(float)); }

    template <class Rule>
    void obvious(Rule const& rule, index n) const {
        index const b = n / dims.q_heads, h = n % dims.q_heads, g = h / dims.group();
        naive_matrix s = scale * (f32(head_matrix(q, b, h)) * f32(head_matrix(k, b, g)).transpose());
        if constexpr (!std::is_same_v<Rule, imbrex::full>) {
            for (index i = 0; i < dims.q_tokens; ++i) {
                for (index j = visible_keys(rule, dims, i); j < dims.kv_tokens; ++j)
                    s(i, j) = -std::numeric_limits<float>::infinity();
            }
        }
        naive_matrix const e = (s.colwise() - s.rowwise().maxCoeff()).array().exp();
        naive_matrix const p = e.array().colwise() / e.rowwise().sum().array();
        store(p * f32(head_matrix(v, b, g)), b, h);
    }

    template <class Rule>
    void careful(Rule const& rule, index n) const {
        index const b = n / dims.q_heads, h = n % dims.q_heads, g = h / dims.group();
        float* memory = reinterpret_cast<float*>(buffers->data());
        auto const take = [&](index rows, index cols) {
            float* const p = memory;
            memory += whole_lines(rows * cols);
            return Eigen::Map<naive_matrix, Eigen::Aligned64>(p, rows, cols);
        };
        auto s = take(dims.q_tokens, dims.kv_tokens);
        if constexpr (std::is_same_v<T, float>) {
            s.noalias() = head_matrix(q, b, h) * head_matrix(k, b, g).transpose();
            softmax_rows(rule, s);
            head_matrix(out, b, h).noalias() = s * head_matrix(v, b, g);
        } else {
            auto wide_q = take(dims.q_tokens, dims.head_dim), wide_kv = take(dims.kv_tokens, dims.head_dim);
            wide_q = head_matrix(q, b, h).template cast<float>();
            wide_kv = head_matrix(k, b, g).template cast<float>();
            s.noalias() = wide_q * wide_kv.transpose();
            softmax_rows(rule, s);
            wide_kv = head_matrix(v, b, g).template cast<float>();
            wide_q.noalias() = s * wide_kv;
            head_matrix(out, b, h) = wide_q.template cast<eigen_scalar<T>>();
        }
    }

private:
    static index whole_lines(index floats) { return (floats + 15) / 16 * 16; }
    index scores_size() const { return whole_lines(dims.q_tokens * dims.kv_tokens); }
    index q_size() const { return whole_lines(dims.q_tokens * dims.head_dim); }
    index kv_size() const { return whole_lines(dims.kv_tokens * dims.head_dim); }

    template <class M>
    static naive_matrix f32(M const& m) {
        return m.template cast<float>();
    }

    template <class M>
    void store(M const& o, index b, index h) const {
        if constexpr (std::is_same_v<T, float>) {
            head_matrix(out, b, h).noalias() = o;
        } else {
            head_matrix(out, b, h) = naive_matrix(o).template cast<eigen_scalar<T>>();
        }
    }

    template <class Rule, class S>
    void softmax_rows(Rule const& rule, S& s) const {
        for (index i = 0; i < dims.q_tokens; ++i) {
            index const seen = visible_keys(rule, dims, i);
            auto row = s.row(i).head(seen).array();
            row = ((row - row.maxCoeff()) * scale).exp();
            row *= 1.0f / row.sum();
            s.row(i).tail(dims.kv_tokens - seen).setZero();
        }
    }
};

}    // namespace imbrex_bench
