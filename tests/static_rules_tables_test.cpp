// Eight compositions of masks that are tables of the caller's.
#include "static_rules.hpp"

namespace imbrex_test {
namespace {

using namespace imbrex;

TEST(StaticTables, LengthsAndPaddingUnderACausalMask) {
    expect_like_dynamic("mask=length:0:0:31,padding:0:0:32,both,bottom_right,both",
                        [](rule_tables& t) { return key_lengths{t.lengths(0)} && left_padding{t.lengths(1)} && bottom_right; });
}
TEST(StaticTables, DocumentsByIdsUnderACausalMask) {
    expect_like_dynamic("mask=segment:16:1:5,bottom_right,both",
                        [](rule_tables& t) { return documents{t.segment_ids(0), t.keys()} && bottom_right; });
}
TEST(StaticTables, ATensorPerQueryAndKeyChainedWithAWindow) {
    expect_like_dynamic("mask=tensor:0:60:8,window:50:-1,both",
                        [](rule_tables& t) { return mask_tensor{t.entries(0)} | window{.left = 50}; });
}
TEST(StaticTables, ATensorOfKeysThatServesAllHeads) {
    expect_like_dynamic("mask=tensor:6:50:9,negated,top_left,either", [](rule_tables& t) { return !mask_tensor{t.entries(0)} || top_left; });
}
TEST(StaticTables, BitsThatServeAllSequences) {
    expect_like_dynamic("mask=tensor:1:70:10,bottom_right,both", [](rule_tables& t) { return t.bits(0) && bottom_right; });
}
TEST(StaticTables, ATreeOfDrafts) {
    expect_like_dynamic("mask=tree:30:0:11", [](rule_tables& t) { return t.tree(0); });
}
TEST(StaticTables, ATreeWithinAWindow) {
    expect_like_dynamic("mask=tree:12:0:12,window:40:-1,prefix:2,either,both",
                        [](rule_tables& t) { return t.tree(0) && (window{.left = 40} || prefix{2}); });
}
TEST(StaticTables, BlocksUnderACausalMask) {
    expect_like_dynamic("mask=blocks:16:32:13,bottom_right,both", [](rule_tables& t) { return block_sparse<>{t.blocks(0), 16, 32} && bottom_right; });
}

}    // namespace
}    // namespace imbrex_test
