#include "instances/dynamic_run_impl.hpp"

IMBREX_TEST_DYNAMIC(imbrex::precision<float, imbrex::bf16, imbrex::bf16, float>)
