// imbrex::eigen brings both headers, and links beside the rest.
#include <imbrex/eigen.hpp>

#include <Eigen/Core>

bool eigen_is_there() { return Eigen::Vector3f::Ones().sum() == 3.f; }
