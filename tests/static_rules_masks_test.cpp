// Six compositions of masks that are formulas of positions.
#include "static_rules.hpp"

namespace imbrex_test {
namespace {

using namespace imbrex;

TEST(StaticMasks, CausalFromTheTopLeftWithinAWindow) {
    expect_like_dynamic("mask=top_left,window:20:3,both", [](rule_tables&) { return top_left && window{.left = 20, .right = 3}; });
}
TEST(StaticMasks, AWindowWithKeysThatStayVisible) {
    expect_like_dynamic("mask=bottom_right,prefix:4,window:30:0,either,both",
                        [](rule_tables&) { return bottom_right && (prefix{4} || window{.left = 30, .right = 0}); });
}
TEST(StaticMasks, AllButAWindow) {
    expect_like_dynamic("mask=window:17:9,negated", [](rule_tables&) { return !window{.left = 17, .right = 9}; });
}
TEST(StaticMasks, CausalChunks) {
    expect_like_dynamic("mask=chunk:16,bottom_right,both", [](rule_tables&) { return chunked{16} && bottom_right; });
}
TEST(StaticMasks, APrefixBeforeACausalRest) {
    expect_like_dynamic("mask=prefix:25,bottom_right,either", [](rule_tables&) { return prefix{25} || bottom_right; });
}
TEST(StaticMasks, OneOfTwoAlignmentsButNotBothChained) {
    expect_like_dynamic("mask=top_left,bottom_right,either,top_left,bottom_right,both,negated,both",
                        [](rule_tables&) { return (top_left || bottom_right) | !(top_left && bottom_right); });
}

}    // namespace
}    // namespace imbrex_test
