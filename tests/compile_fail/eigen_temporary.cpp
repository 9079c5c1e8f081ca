// expect: imbrex: view_of would outlive this temporary matrix; give it a name first
#include "imbrex/eigen.hpp"

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

imbrex::tensor_view<float> view(matrix& named) {
#ifdef IMBREX_EXPECT_FAIL
    named.setZero();
    return imbrex::view_of(matrix(4, 4));
#else
    return imbrex::view_of(named);
#endif
}
