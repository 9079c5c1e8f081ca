#include "instances/dynamic_run_impl.hpp"

IMBREX_TEST_DYNAMIC(imbrex::precision<imbrex::bf16>)
