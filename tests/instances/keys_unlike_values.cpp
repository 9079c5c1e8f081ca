#include "instances/instances.hpp"

IMBREX_TEST_KERNELS_KEYS_UNLIKE_VALUES()
