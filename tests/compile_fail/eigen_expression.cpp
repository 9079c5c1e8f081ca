// expect: imbrex: view_of needs a matrix that lies in memory .* evaluate the expression into a matrix first
#include "imbrex/eigen.hpp"

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

auto view(matrix const& a, matrix const& b, matrix& sum) {
#ifdef IMBREX_EXPECT_FAIL
    sum.setZero();
    return imbrex::view_of(a + b, 2);
#else
    sum = a + b;
    return imbrex::view_of(sum, 2);
#endif
}
