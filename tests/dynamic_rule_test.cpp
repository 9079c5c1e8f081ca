// Thousands of random calls, each with a random rule, against plain loops. IMBREX_RANDOM_CASES sets how many. A failure tells the
// simplest failing case as one line; IMBREX_CASE='<line>' runs just that.
#include "dynamic_run.hpp"

#include <cstdlib>
#include <set>

namespace imbrex_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr index usual_cases = 400;
#elif defined(__has_feature)
constexpr index usual_cases = __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) ? 400 : 2400;
#else
constexpr index usual_cases = 2400;
#endif

index number_of_cases() {
    char const* const text = std::getenv("IMBREX_RANDOM_CASES");
    return text == nullptr ? usual_cases : std::strtol(text, nullptr, 10);
}

dynamic_case case_number(index i) { return case_maker{test_seed() + static_cast<std::uint32_t>(i)}.draw(); }

std::string report(dynamic_case const& failing) {
    dynamic_case const simplest = shrunk(failing, [](dynamic_case const& c) { return !fault_of(c).empty(); });
    return fault_of(simplest) + "\nIMBREX_CASE='" + text_of(simplest) + "'";
}

class DynamicRule : public testing::Test {};

class RandomCases : public testing::TestWithParam<index> {};    // a part of all, so that they run side by side
constexpr index parts = 8;

TEST_P(RandomCases, MatchPlainLoops) {
    RecordProperty("seed", std::to_string(test_seed()));
    index failures = 0;
    for (index i = GetParam(); i < number_of_cases() && failures < 3; i += parts) {
        dynamic_case const c = case_number(i);
        if (fault_of(c).empty()) continue;
        ++failures;
        ADD_FAILURE() << report(c);
    }
}
INSTANTIATE_TEST_SUITE_P(DynamicRule, RandomCases, testing::Range<index>(0, parts), testing::PrintToStringParamName());

TEST_F(DynamicRule, TheCaseOfTheEnvironmentMatchesPlainLoops) {
    char const* const text = std::getenv("IMBREX_CASE");
    if (text == nullptr) GTEST_SKIP() << "IMBREX_CASE is not set";
    auto const c = case_of(text);
    ASSERT_TRUE(c.has_value()) << "not a case: " << text;
    EXPECT_EQ(fault_of(*c), "");
}

// What the random cases are worth: every part, precision and advice is among them, and rules neither show nor hide everything.
TEST_F(DynamicRule, RandomCasesReachEveryPart) {
    std::set<term> terms;
    std::set<change> changes;
    std::set<index> all_precisions, given, tiles;
    index sinks = 0, mixed = 0;
    for (index i = 0; i < usual_cases; ++i) {
        dynamic_case const c = case_number(i);
        for (int n = 0; n < c.what.term_count; ++n) terms.insert(c.what.terms[n].kind);
        for (int n = 0; n < c.what.change_count; ++n) changes.insert(c.what.changes[n].kind);
        all_precisions.insert(c.precision);
        given.insert(c.given);
        tiles.insert(c.tiles);
        sinks += c.what.sinks[0] != 0 ? 1 : 0;
        if (c.q_tokens * c.kv_tokens == 0) continue;
        index const kept = dynamic_call_of(c).kept.count(0, 0, 0, c.q_tokens, 0, c.kv_tokens);
        mixed += kept > 0 && kept < c.q_tokens * c.kv_tokens ? 1 : 0;
    }
    EXPECT_EQ(terms.size(), std::size(term_names) - 1);    // all but `all`
    EXPECT_EQ(changes.size(), std::size(change_names));
    EXPECT_EQ(static_cast<index>(all_precisions.size()), precisions);
    EXPECT_EQ(given.size(), 3u);
    EXPECT_EQ(tiles.size(), 3u);
    EXPECT_GT(sinks, usual_cases / 10);
    EXPECT_GT(mixed, usual_cases / 2);
}

TEST_F(DynamicRule, ACaseIsReadBackFromItsLine) {
    for (index i = 0; i < 500; ++i) {
        dynamic_case const c = case_number(i);
        auto const read = case_of(text_of(c));
        ASSERT_TRUE(read.has_value()) << text_of(c);
        EXPECT_EQ(text_of(*read), text_of(c));
        EXPECT_TRUE(*read == c) << text_of(c);
    }
    EXPECT_FALSE(case_of("q=1 colour=3").has_value());
    EXPECT_FALSE(case_of("q=1 mask=round:1:2:3").has_value());
}

// A classify that says `full` where it may not is found in a few cases, and the line that is left is short and fails too.
TEST_F(DynamicRule, AnUnsoundRuleIsFoundAndShrunk) {
    index found = 0;
    for (index i = 0; i < 60 && found < 2; ++i) {
        dynamic_case c = case_number(i);
        c.given = static_cast<index>(advice::unsound);
        if (fault_of(c).empty()) continue;
        ++found;
        std::string const line = text_of(shrunk(c, [](dynamic_case const& next) { return !fault_of(next).empty(); }));
        auto const simplest = case_of(line);
        ASSERT_TRUE(simplest.has_value()) << line;
        EXPECT_NE(fault_of(*simplest), "") << line;
        EXPECT_LE(simplest->what.term_count, 3) << line;
        EXPECT_LE(simplest->q_tokens, 4) << line;    // the first key that a block or a length shows may be a late one
        EXPECT_EQ(simplest->head_dim_v, 1) << line;
    }
    EXPECT_EQ(found, 2);
}

TEST_F(DynamicRule, ShrinkingKeepsWhatAFaultNeeds) {
    auto const fails = [](dynamic_case const& c) {
        bool window = false;
        for (int i = 0; i < c.what.term_count; ++i) window = window || c.what.terms[i].kind == term::window;
        return window && c.q_tokens > 3 && c.kv_heads == 2;
    };
    index tried = 0;
    for (index i = 0; i < 1000; ++i) {
        dynamic_case const c = case_number(i);
        if (!fails(c)) continue;
        dynamic_case const s = shrunk(c, fails);
        ++tried;
        EXPECT_EQ(s.what.term_count, 1) << text_of(c) << "\n" << text_of(s);
        EXPECT_EQ(s.what.change_count, 0);
        EXPECT_EQ(s.q_tokens, 4);
        EXPECT_EQ(s.kv_tokens, 0);
        EXPECT_EQ(s.q_heads, 2);
        EXPECT_EQ(s.batch * s.head_dim * s.head_dim_v, 1);
    }
    EXPECT_GT(tried, 20);
}

}    // namespace
}    // namespace imbrex_test
