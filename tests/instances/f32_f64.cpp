#include "instances/instances.hpp"

IMBREX_TEST_KERNELS_32_64()
