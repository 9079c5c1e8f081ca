#include "instances/instances.hpp"

IMBREX_TEST_KERNELS_F32_ON_BF16()
