// Views over Eigen's matrices and tensors, without copies. Opt-in: imbrex::eigen, or Eigen 3.4 on the include path.
//
//     Eigen::Matrix<float, Dynamic, Dynamic, RowMajor> q, k, v, out;             // tokens x (heads * head_dim)
//     attention(view_of(q, 32), dense_kv{view_of(k, 8), view_of(v, 8)}, view_of(out, 32), ...);
//
// Strides are taken as they are. Attention wants the elements of a head next to each other, so a column-major matrix of
// tokens x head_dim is refused by the call (errc::dim_stride); one of head_dim x tokens goes in as m.transpose().
// Eigen::half and Eigen::bfloat16 become f16 and bf16. A view of a const object is one of const elements.
#pragma once

#include <Eigen/Core>

#include <concepts>
#include <type_traits>
#include <utility>

#include "imbrex/dtype.hpp"
#include "imbrex/view.hpp"

namespace imbrex {

namespace eigen_detail {

// The library's element type for one of Eigen's, of the same size and bits.
template <class Scalar>
struct element_of_eigen {
    using type = Scalar;
};
template <>
struct element_of_eigen<Eigen::half> {
    using type = f16;
};
template <>
struct element_of_eigen<Eigen::bfloat16> {
    using type = bf16;
};

// Eigen's pointer as the library's, as const as it was.
template <class Scalar>
auto eigen_data(Scalar* data) noexcept {
    using E = typename element_of_eigen<std::remove_const_t<Scalar>>::type;
    static_assert(element<E>,
                  "imbrex: attention reads float, double, Eigen::half or Eigen::bfloat16; cast the matrix or tensor to one");
    return reinterpret_cast<std::conditional_t<std::is_const_v<Scalar>, E const, E>*>(data);
}

template <class D>
void as_dense(Eigen::DenseBase<D> const&);
template <class D>
void as_owner(Eigen::PlainObjectBase<D> const&);

template <class M>
concept eigen_dense = requires(std::remove_cvref_t<M> const& m) {
    as_dense(m);
};

template <class M>
concept eigen_owner = requires(std::remove_cvref_t<M> const& m) {
    as_owner(m);
};

template <class M>
constexpr void check_in_memory() noexcept {
    static_assert((std::remove_cvref_t<M>::Flags & Eigen::DirectAccessBit) != 0,
                  "imbrex: view_of needs a matrix that lies in memory (Matrix, Map, Ref, or a block or transpose of one); "
                  "evaluate the expression into a matrix first");
    static_assert(std::is_lvalue_reference_v<M> || !eigen_owner<M>,
                  "imbrex: view_of would outlive this temporary matrix; give it a name first");
}

}    // namespace eigen_detail

// One head: row i of the matrix is token i, its columns are head_dim.
template <eigen_detail::eigen_dense M>
auto view_of(M&& m) noexcept {
    eigen_detail::check_in_memory<M>();
    return strided(eigen_detail::eigen_data(m.data()), shape4{1, m.rows(), 1, m.cols()},
                   strides4{0, m.rowStride(), 0, m.colStride()});
}

// Heads side by side: row i of the matrix is token i, its columns are heads * head_dim. Where they do not divide, the view has
// head_dim 0, which a call refuses.
template <eigen_detail::eigen_dense M>
auto view_of(M&& m, index heads) noexcept {
    eigen_detail::check_in_memory<M>();
    index const head_dim = heads > 0 && m.cols() % heads == 0 ? m.cols() / heads : 0;
    return strided(eigen_detail::eigen_data(m.data()), shape4{1, m.rows(), heads, head_dim},
                   strides4{0, m.rowStride(), head_dim * m.colStride(), m.colStride()});
}

// The order of a tensor's axes, outermost in memory first: of its indices when it is RowMajor, and of its indices from the last
// to the first when it is ColMajor.
enum class axis_order {
    batch_token_head_dim,
    batch_head_token_dim,
};

namespace eigen_detail {

// Eigen::Tensor, TensorFixedSize or TensorMap of rank 4, known by its shape: Eigen's tensor header is the user's to include.
template <class T>
concept eigen_tensor = !eigen_dense<T> && requires(T & t) {
    typename std::remove_cvref_t<T>::Dimensions;
    t.data();
    { t.dimension(0) } -> std::convertible_to<index>;
    requires std::remove_cvref_t<T>::NumIndices == 4;
    static_cast<int>(std::remove_cvref_t<T>::Layout);
};

template <class T>
inline constexpr bool is_row_major = static_cast<int>(T::Layout) == static_cast<int>(Eigen::RowMajor);

// A TensorMap is made of a pointer and dimensions; the others own their elements.
template <class T>
concept maps_memory = std::constructible_from<T, decltype(std::declval<T&>().data()), typename T::Dimensions const&>;

}    // namespace eigen_detail

// A tensor of four axes, e.g. Eigen::TensorMap<Eigen::Tensor<float, 4, Eigen::RowMajor>>.
template <eigen_detail::eigen_tensor T>
auto view_of(T&& t, axis_order order = axis_order::batch_token_head_dim) noexcept {
    using Tensor = std::remove_cvref_t<T>;
    static_assert(std::is_lvalue_reference_v<T> || eigen_detail::maps_memory<Tensor>,
                  "imbrex: view_of would outlive this temporary tensor; give it a name first");
    auto const size = [&](unsigned axis) {
        return static_cast<index>(t.dimension(eigen_detail::is_row_major<Tensor> ? axis : 3 - axis));
    };
    auto* const data = eigen_detail::eigen_data(t.data());
    if (order == axis_order::batch_head_token_dim) return bhsd(data, shape4{size(0u), size(2u), size(1u), size(3u)});
    return bshd(data, shape4{size(0u), size(1u), size(2u), size(3u)});
}

}    // namespace imbrex
