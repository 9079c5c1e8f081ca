// rules/tree.hpp: draft tokens see the prefix, themselves and their ancestors.
#include "imbrex/rules/tree.hpp"

#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::number_tree;
using imbrex::tree;

using numbers = std::vector<position>;

// A numbered tree and its memory.
struct draft {
    numbers entry, exit;

    explicit draft(numbers const& parents) : entry(parents.size()), exit(parents.size()) {
        imbrex::status const s = number_tree(parents, entry, exit);
        EXPECT_TRUE(s.ok()) << s.message().c_str();
    }
    operator tree() const { return {entry, exit}; }
};

// By climbing from i, not by numbers.
bool is_ancestor_or_self(numbers const& parents, position j, position i) {
    while (i > j) i = parents[static_cast<std::size_t>(i)];
    return i == j;
}

TEST(Tree, DraftsSeeThePrefixThemselvesAndTheirAncestors) {
    draft const d{{-1, 0, 0, 1, 2, -1}};
    EXPECT_EQ(picture(tree(d), 6, 8), (rows{"11100000", "11110000", "11101000", "11110100", "11101010", "11000001"}));
}

TEST(Tree, OfOneBranchIsCausal) {
    draft const chain{{-1, 0, 1, 2}};
    EXPECT_EQ(picture(tree(chain), 4, 6), picture(imbrex::causal{imbrex::align::bottom_right}, 4, 6));
}

TEST(Tree, QueriesBeforeTheDraftsSeeNoneOfThem) {
    draft const d{{-1, 0}};
    EXPECT_EQ(picture(tree(d), 4, 5), (rows{"11100", "11100", "11110", "11111"}));
    EXPECT_EQ(picture(tree(d) && imbrex::causal{imbrex::align::bottom_right}, 4, 5), (rows{"11000", "11100", "11110", "11111"}));
}

TEST(Tree, MayDifferBetweenSequences) {
    draft const chain{{-1, 0, 1}}, star{{-1, -1, -1}};
    numbers entry = chain.entry, exit = chain.exit;
    entry.insert(entry.end(), star.entry.begin(), star.entry.end());
    exit.insert(exit.end(), star.exit.begin(), star.exit.end());
    EXPECT_EQ(picture(tree{entry, exit, 3}, 3, 4, 0), (rows{"1100", "1110", "1111"}));
    EXPECT_EQ(picture(tree{entry, exit, 3}, 3, 4, 1), (rows{"1100", "1010", "1001"}));
    expect_consistent_made([&](head_context const& ctx) { return ctx.kv_len < 3 ? tree{} : tree{entry, exit, 3}; },
                           {shortcut::exact, shortcut::sound});
}

// f(parents) for every forest of up to 5 tokens.
template <class F>
void for_each_forest(F const& f) {
    for (position n = 0; n <= 5; ++n) {
        numbers parents(static_cast<std::size_t>(n), -1);
        for (bool more = true; more;) {
            f(parents);
            more = false;
            for (position i = 0; i < n && !more; ++i) {
                position& p = parents[static_cast<std::size_t>(i)];
                more = ++p < i;
                if (!more) p = -1;
            }
        }
    }
}

TEST(Tree, NumbersTellAncestorsInEveryForest) {
    int forests = 0;
    for_each_forest([&](numbers const& parents) {
        SCOPED_TRACE(testing::PrintToString(parents));
        position const n = static_cast<position>(parents.size());
        draft const d{parents};
        tree const t = d;
        head_context const ctx{0, n, n + 2};
        for (position i = 0; i < n; ++i) {
            ASSERT_TRUE(t.keep(ctx, 2 + i, 0) && t.keep(ctx, 2 + i, 1));
            for (position j = 0; j < n; ++j) ASSERT_EQ(t.keep(ctx, 2 + i, 2 + j), is_ancestor_or_self(parents, j, i)) << i << " sees " << j;
        }
        ASSERT_TRUE(check(t, {1, 1, n, n}).ok());
        ++forests;
    });
    EXPECT_EQ(forests, 1 + 1 + 2 + 6 + 24 + 120);
}

TEST(Tree, ShortcutsAndLanesAgreeWithKeep) {
    for (numbers const& parents : {numbers{}, {-1}, {-1, -1, -1}, {-1, 0, 1, 2}, {-1, 0, 0, 1, 2}, {-1, 0, -1, 2, 2, 1, 0}}) {
        SCOPED_TRACE(testing::PrintToString(parents));
        draft const d{parents};
        // A tree of more drafts than keys is refused.
        auto const of = [&](head_context const& ctx) { return ctx.kv_len < static_cast<position>(parents.size()) ? tree{} : tree(d); };
        expect_consistent_made(of, {shortcut::exact, shortcut::sound});
        expect_consistent_made([&](head_context const& ctx) { return of(ctx) && imbrex::causal{imbrex::align::bottom_right}; },
                               {shortcut::sound, shortcut::sound});
        expect_consistent_made([&](head_context const& ctx) { return !of(ctx); }, {shortcut::exact, shortcut::sound});
    }
}

TEST(Tree, NumberingRefusesParentsThatComeLater) {
    numbers entry(3), exit(3);
    EXPECT_TRUE(number_tree(numbers{-1, 0, 1}, entry, exit).ok());
    EXPECT_TRUE(number_tree(numbers{}, {}, {}).ok());
    for (numbers const& parents : {numbers{0, 0, 0}, {-1, 2, 1}, {-1, 0, -2}}) EXPECT_STATUS(number_tree(parents, entry, exit), rule_value);
    EXPECT_EQ(number_tree(numbers{-1, 2, 1}, entry, exit).value(2), 1) << "whose";
    EXPECT_STATUS(number_tree(numbers{-1, 0, 1, 2}, entry, exit), rule_too_short);
    EXPECT_STATUS(number_tree(numbers{-1, 0}, entry, std::span{exit}.first(1)), rule_too_short);
}

TEST(Tree, RefusesMoreDraftsThanKeysAndNumbersThatAreNone) {
    draft const d{{-1, 0, 0}};
    EXPECT_TRUE(check(tree(d), {5, 1, 3, 3}).ok() && check(tree{}, {5, 1, 3, 3}).ok());
    EXPECT_STATUS(check(tree{d.entry, d.exit, 1}, {3, 1, 1, 1}), rule_value);
    EXPECT_STATUS(check(tree(d), {1, 1, 1, 2}), rule_value);
    EXPECT_STATUS(check(tree{d.entry, std::span{d.exit}.first(2)}, {1, 1, 3, 3}), rule_too_short);
    EXPECT_STATUS(check(tree{d.entry, d.exit, 3}, {2, 1, 3, 3}), rule_too_short);
    EXPECT_STATUS(check(tree{d.entry, d.exit, -1}, {1, 1, 3, 3}), rule_value);
    numbers const zeros{0, 0, 0}, fours{4, 4, 4};
    EXPECT_STATUS(check(tree{zeros, zeros}, {1, 1, 3, 3}), rule_value);
    EXPECT_STATUS(check(tree{zeros, fours}, {1, 1, 3, 3}), rule_value);
    EXPECT_STATUS(check(tree{fours, fours}, {1, 1, 3, 3}), rule_value);
}

}    // namespace
}    // namespace imbrex_test
