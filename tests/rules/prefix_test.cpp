// rules/prefix.hpp: the first keys, for all sequences or for each.
#include "imbrex/rules/prefix.hpp"

#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/window.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::prefix;
using imbrex::prefix_lengths;
using imbrex::window;

TEST(Prefix, IsSeenByEveryQuery) {
    EXPECT_EQ(picture(prefix{2}, 3, 4), (rows{"1100", "1100", "1100"}));
    EXPECT_EQ(picture(prefix{0}, 1, 3), (rows{"000"}));
    EXPECT_EQ(picture(prefix{9}, 1, 3), (rows{"111"}));
}

TEST(Prefix, OrCausalIsAPrefixLm) {
    EXPECT_EQ(picture(prefix{2} || causal{align::bottom_right}, 4, 4), (rows{"1100", "1100", "1110", "1111"}));
}

TEST(Prefix, OrAWindowKeepsItsSinks) {
    EXPECT_EQ(picture(prefix{2} || window{.left = 1, .right = 0}, 3, 7), (rows{"1101100", "1100110", "1100011"}));
}

TEST(Prefix, MayDifferBetweenSequences) {
    std::vector<position> const lengths{1, 3};
    EXPECT_EQ(picture(prefix_lengths{lengths}, 1, 4, 0), (rows{"1000"}));
    EXPECT_EQ(picture(prefix_lengths{lengths}, 1, 4, 1), (rows{"1110"}));
}

TEST(Prefix, ShortcutsAndLanesAgreeWithKeep) {
    for (index const n : {index{0}, index{1}, index{4}, index{7}, index{1} << 40}) expect_consistent(prefix{n});
    std::vector<position> const lengths{2, 30};
    expect_consistent(prefix_lengths{lengths});
}

TEST(Prefix, CombinationsAreSound) {
    expect_consistent(prefix{2} || causal{align::bottom_right}, {shortcut::exact, shortcut::sound});
    expect_consistent(prefix{2} || window{.left = 1, .right = 0}, {shortcut::sound, shortcut::sound});
    expect_consistent(!prefix{2} && window{.left = 3, .right = 1}, {shortcut::sound, shortcut::sound});
}

TEST(Prefix, RefusesNegativeAndMissingLengths) {
    std::vector<position> const lengths{2, -1};
    EXPECT_TRUE(check(prefix{100}, {2, 1, 5, 5}).ok());
    EXPECT_STATUS(check(prefix{-1}, {2, 1, 5, 5}), rule_value);
    EXPECT_TRUE(check(prefix_lengths{lengths}, {1, 1, 5, 5}).ok());
    EXPECT_STATUS(check(prefix_lengths{lengths}, {2, 1, 5, 5}), rule_value);
    EXPECT_STATUS(check(prefix_lengths{lengths}, {3, 1, 5, 5}), rule_too_short);
    EXPECT_EQ(check(prefix_lengths{lengths}, {3, 1, 5, 5}).message().view(),
              "imbrex: the rule's prefix has 2 entries but this call needs 3; pass at least that many");
}

}    // namespace
}    // namespace imbrex_test
