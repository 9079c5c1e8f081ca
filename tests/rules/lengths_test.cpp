// rules/lengths.hpp: padding at the end and at the start of each sequence.
#include "imbrex/rules/lengths.hpp"

#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::key_lengths;
using imbrex::left_padding;

TEST(KeyLengths, HideWhatComesAfterThem) {
    std::vector<position> const lengths{1, 3, 0};
    EXPECT_EQ(picture(key_lengths{lengths}, 2, 3, 0), (rows{"100", "100"}));
    EXPECT_EQ(picture(key_lengths{lengths}, 2, 3, 1), (rows{"111", "111"}));
    EXPECT_EQ(picture(key_lengths{lengths}, 2, 3, 2), (rows{"000", "000"}));
}

TEST(LeftPadding, HidesWhatComesBeforeTheFirstToken) {
    std::vector<position> const padding{2, 0};
    EXPECT_EQ(picture(left_padding{padding} && causal{align::bottom_right}, 4, 4, 0), (rows{"0000", "0000", "0010", "0011"}));
    EXPECT_EQ(picture(left_padding{padding}, 1, 4, 1), (rows{"1111"}));
}

TEST(Lengths, ShortcutsAndLanesAgreeWithKeep) {
    for (position const first : {0, 1, 3, 7}) {
        std::vector<position> const numbers{first, 5};
        expect_consistent(key_lengths{numbers});
        expect_consistent(left_padding{numbers});
        expect_consistent(key_lengths{numbers} && causal{align::bottom_right}, {shortcut::exact, shortcut::exact});
        expect_consistent(left_padding{numbers} || key_lengths{numbers}, {shortcut::sound, shortcut::sound});
    }
}

TEST(Lengths, AreOnePerSequenceBetweenNothingAndTheKeysThereAre) {
    std::vector<position> const numbers{0, 5, 6, -1};
    EXPECT_TRUE(check(key_lengths{numbers}, {2, 1, 1, 5}).ok() && check(left_padding{numbers}, {2, 1, 1, 5}).ok());
    EXPECT_TRUE(check(key_lengths{numbers}, {3, 1, 1, 6}).ok() && check(left_padding{numbers}, {3, 1, 1, 6}).ok());
    EXPECT_STATUS(check(key_lengths{numbers}, {3, 1, 1, 5}), rule_value);
    EXPECT_STATUS(check(left_padding{numbers}, {3, 1, 1, 5}), rule_value);
    EXPECT_STATUS(check(key_lengths{numbers}, {4, 1, 1, 9}), rule_value);
    EXPECT_STATUS(check(key_lengths{numbers}, {5, 1, 1, 9}), rule_too_short);
    EXPECT_EQ(check(key_lengths{numbers}, {3, 1, 1, 5}).value(2), 2) << "which sequence's";
}

}    // namespace
}    // namespace imbrex_test
