// expect: imbrex: attention reads float, double, Eigen::half or Eigen::bfloat16; cast the matrix or tensor to one
#include "imbrex/eigen.hpp"

#ifdef IMBREX_EXPECT_FAIL
using scalar = int;
#else
using scalar = Eigen::bfloat16;
#endif

auto view(Eigen::Matrix<scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>& m) { return imbrex::view_of(m); }
