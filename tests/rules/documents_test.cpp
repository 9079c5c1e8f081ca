// rules/documents.hpp: packed documents, by ids and by starts.
#include "imbrex/rules/documents.hpp"

#include <algorithm>

#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::documents;
using imbrex::packed_documents;

using numbers = std::vector<position>;

TEST(Documents, SeeTheirOwnTokensOnly) {
    numbers const ids{3, 3, 3, 7, 7}, starts{0, 3, 5};
    rows const expected{"11100", "11100", "11100", "00011", "00011"};
    EXPECT_EQ(picture(documents{ids}, 5, 5), expected);
    EXPECT_EQ(picture(packed_documents{starts}, 5, 5), expected);
    EXPECT_EQ(picture(documents{ids} && causal{align::bottom_right}, 5, 5), (rows{"10000", "11000", "11100", "00010", "00011"}));
}

TEST(Documents, TakeAQuerysIdAtItsPosition) {
    numbers const ids{-1, -1, 0, 4, 4};
    EXPECT_EQ(picture(documents{ids}, 2, 5), (rows{"00011", "00011"}));
    EXPECT_EQ(picture(documents{ids}, 2, 3), (rows{"110", "001"}));
}

TEST(Documents, HaveARowOfIdsPerSequence) {
    numbers const ids{0, 0, 1, 99, 0, 1, 1, 99};
    EXPECT_EQ(picture(documents{ids, 4}, 3, 3, 0), (rows{"110", "110", "001"}));
    EXPECT_EQ(picture(documents{ids, 4}, 3, 3, 1), (rows{"100", "011", "011"}));
}

TEST(Documents, QueriesBeforeTheFirstKeySeeNothing) {
    numbers const ids{1, 2}, starts{0, 1, 2};
    EXPECT_EQ(picture(documents{ids}, 4, 2), (rows{"00", "00", "10", "01"}));
    EXPECT_EQ(picture(packed_documents{starts}, 4, 2), (rows{"00", "00", "10", "01"}));
}

TEST(Documents, TokensBeyondTheStartsBelongToNone) {
    numbers const starts{1, 3, 3, 4};
    EXPECT_EQ(picture(packed_documents{starts}, 6, 6), (rows{"000000", "011000", "011000", "000100", "000000", "000000"}));
}

// Every nondecreasing row of 4 ids, each of two tokens, that skip values.
template <class F>
void for_each_ids(F const& f) {
    constexpr position values[] = {-5, 0, 1, 9};
    for (int code = 0; code < 4 * 4 * 4 * 4; ++code) {
        numbers ids;
        for (int i = 0; i < longest; ++i) ids.push_back(values[code >> (i / 2 * 2) & 3]);
        if (std::is_sorted(ids.begin(), ids.end())) f(ids);
    }
}

TEST(Documents, ShortcutsAndLanesOfIdsAgreeWithKeep) {
    int tried = 0;
    for_each_ids([&](numbers ids) {
        SCOPED_TRACE(testing::PrintToString(ids));
        ids.insert(ids.end(), {0, 0, 1, 1, 1, 2, 3});    // of the second sequence
        expect_consistent(documents{ids, longest});
        ++tried;
    });
    EXPECT_GT(tried, 30);
}

TEST(Documents, ShortcutsAndLanesOfStartsAgreeWithKeep) {
    for (numbers const& starts : {numbers{0}, {7}, {0, 7}, {0, 3, 7}, {0, 2, 2, 2, 5}, {1, 4, 6}, {3, 3}, {0, 1, 2, 3, 4, 5, 6, 7}, {2, 3, 3, 7}}) {
        SCOPED_TRACE(testing::PrintToString(starts));
        expect_consistent(packed_documents{starts});
        expect_consistent(packed_documents{starts} && causal{align::bottom_right}, {shortcut::sound, shortcut::sound});
        expect_consistent(!packed_documents{starts}, {shortcut::exact, shortcut::sound});
    }
}

TEST(Documents, RefuseIdsThatAreTooFewOrOutOfOrder) {
    numbers const ids{0, 0, 1, 0, 1, 2};
    EXPECT_TRUE(check(documents{ids}, {1, 1, 3, 3}).ok() && check(documents{ids}, {2, 1, 3, 3}).ok() && check(documents{ids, 3}, {2, 1, 3, 3}).ok());
    EXPECT_TRUE(check(documents{}, {1, 1, 3, 0}).ok() && check(documents{}, {0, 1, 3, 3}).ok());
    EXPECT_STATUS(check(documents{ids}, {1, 1, 4, 4}), rule_value);
    EXPECT_EQ(check(documents{ids}, {1, 1, 4, 4}).value(2), 3) << "where";
    EXPECT_STATUS(check(documents{ids, 2}, {2, 1, 3, 3}), rule_value);
    EXPECT_STATUS(check(documents{ids}, {1, 1, 7, 7}), rule_too_short);
    EXPECT_STATUS(check(documents{ids, 3}, {3, 1, 3, 3}), rule_too_short);
    EXPECT_STATUS(check(documents{ids, imbrex::max_length}, {imbrex::max_length, 1, 3, 3}), rule_too_short);
    EXPECT_STATUS(check(documents{ids, -1}, {2, 1, 3, 3}), rule_value);
    EXPECT_STATUS(check(documents{}, {1, 1, 1, 1}), rule_too_short);
}

TEST(Documents, RefuseStartsThatAreOutOfOrderOrBeyondTheKeys) {
    auto const code_of = [](numbers const& starts) { return check(packed_documents{starts}, {1, 1, 5, 5}).code(); };
    EXPECT_EQ(code_of({0, 2, 2, 5}), imbrex::errc::ok);
    EXPECT_EQ(code_of({1, 4}), imbrex::errc::ok);
    EXPECT_EQ(code_of({}), imbrex::errc::rule_too_short);
    EXPECT_EQ(code_of({-1, 5}), imbrex::errc::rule_value);
    EXPECT_EQ(code_of({0, 3, 2}), imbrex::errc::rule_value);
    EXPECT_EQ(code_of({0, 6}), imbrex::errc::rule_value);
}

}    // namespace
}    // namespace imbrex_test
