// expect: imbrex: view_of would outlive this temporary tensor; give it a name first
#include "imbrex/eigen.hpp"

#include <unsupported/Eigen/CXX11/Tensor>

using tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

imbrex::tensor_view<float> view(tensor& named) {
#ifdef IMBREX_EXPECT_FAIL
    named.setZero();
    return imbrex::view_of(tensor(1, 2, 3, 4));
#else
    return imbrex::view_of(named);
#endif
}
