// expect: deleted (function|constructor).*causal
#include "imbrex/rules/causal.hpp"

#ifdef IMBREX_EXPECT_FAIL
imbrex::causal const rule{};
#else
imbrex::causal const rule{imbrex::align::bottom_right};
#endif
