// expect: imbrex: && joins masks, and . binds tighter; put the masks in parentheses
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/softcap.hpp"
#include "imbrex/rules/window.hpp"

using namespace imbrex;

#ifdef IMBREX_EXPECT_FAIL
auto const rule = softcap{50} | causal{align::bottom_right} && window{.left = 9};
#else
auto const rule = softcap{50} | (causal{align::bottom_right} && window{.left = 9});
#endif
