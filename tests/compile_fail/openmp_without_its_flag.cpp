// expect: imbrex: openmp_executor runs on OpenMP's threads; compile this file with -fopenmp, or use executors/thread_team.hpp
#ifdef IMBREX_EXPECT_FAIL
#include "imbrex/executors/openmp.hpp"
#else
#include "imbrex/executors/thread_team.hpp"
#endif
