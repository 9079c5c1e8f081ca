// Lengths, batches and heads in f32. Every tensor and the workspace end at a forbidden page, and once more begin at one.
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;

class AttentionShapes : public Seeded, public testing::WithParamInterface<attention_case> {};

TEST_P(AttentionShapes, MatchesF64AndStaysWithinItsMemory) { expect_right<f32>(GetParam(), accuracy::strict); }

std::vector<attention_case> with_every_rule(std::vector<attention_case> cases) {
    std::vector<attention_case> all;
    for (attention_case c : cases) {
        for (rule const r : {rule::full, rule::top_left, rule::bottom_right}) {
            c.sees = r;
            all.push_back(c);
        }
    }
    return all;
}

std::vector<attention_case> lengths() {
    std::vector<attention_case> cases;
    struct {
        index q, kv;
    } const pairs[] = {{1, 1}, {1, 2}, {2, 1}, {1, 300}, {3, 257}, {8, 129}, {9, 129}, {113, 203}, {203, 113}, {239, 1}, {1023, 1024}};
    for (auto const& p : pairs) cases.push_back({.q_tokens = p.q, .kv_tokens = p.kv});
    cases.push_back({.batch = 2, .q_tokens = 0, .kv_tokens = 5, .q_heads = 2});
    cases.push_back({.batch = 2, .q_tokens = 5, .kv_tokens = 0, .q_heads = 2});
    cases.push_back({.batch = 2, .q_tokens = 90, .kv_tokens = 0, .q_heads = 2});
    cases.push_back({.q_tokens = 0, .kv_tokens = 0});
    cases.push_back({.batch = 0, .q_tokens = 5, .kv_tokens = 7});
    return with_every_rule(cases);
}

std::vector<attention_case> heads() {
    std::vector<attention_case> cases;
    struct {
        index q, kv;
    } const pairs[] = {{1, 1}, {4, 2}, {6, 1}, {7, 1}, {9, 3}, {71, 1}};
    for (auto const& h : pairs) {
        for (index const tokens : {1, 2, 37}) {
            cases.push_back({.batch = 2, .q_tokens = tokens, .kv_tokens = 70, .q_heads = h.q, .kv_heads = h.kv, .head_dim = 48, .memory = order::bshd});
        }
    }
    return with_every_rule(cases);
}

INSTANTIATE_TEST_SUITE_P(Lengths, AttentionShapes, testing::ValuesIn(lengths()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Heads, AttentionShapes, testing::ValuesIn(heads()), name_of_case);

class AttentionEdges : public Seeded {};

// The tiles are the plan's, so these stay edges when the tuned numbers change.
TEST_F(AttentionEdges, LengthsOneLessAndOneMoreThanATileAndAVectorMatchF64) {
    imbrex::plan p;
    ASSERT_OK((imbrex::make_plan<f32>({.q_tokens = 4096, .kv_tokens = 4096, .head_dim = 64}, p)));
    index const lanes = imbrex::lane_count<float>;
    for (index const q_tile : {lanes, p.wide_tiles.q_rows}) {
        for (index const kv_tile : {index{16}, p.wide_tiles.kv_cols, 2 * p.wide_tiles.kv_cols}) {
            for (index const q : {q_tile - 1, q_tile, q_tile + 1}) {
                for (index const kv : {kv_tile - 1, kv_tile, kv_tile + 1}) {
                    for (rule const r : {rule::full, rule::top_left, rule::bottom_right}) {
                        attention_case const c{.q_tokens = q, .kv_tokens = kv, .q_heads = 3, .kv_heads = 1, .sees = r};
                        expect_right<f32>(c, accuracy::strict);
                    }
                }
            }
        }
    }
}

TEST_F(AttentionEdges, KeysOneLessAndOneMoreThanATileOfADecodeStepMatchF64) {
    imbrex::plan p;
    ASSERT_OK((imbrex::make_plan<f32>({.q_tokens = 1, .kv_tokens = 4096, .head_dim = 64}, p)));
    for (index const rows : {1, 2, 3, 4, 5, 7, 8}) {
        for (index const kv_tile : {index{imbrex::lane_count<float>}, p.narrow_kv_cols, 2 * p.narrow_kv_cols}) {
            for (index const kv : {kv_tile - 1, kv_tile, kv_tile + 1}) {
                attention_case const c{.q_tokens = 1, .kv_tokens = kv, .q_heads = rows, .kv_heads = 1, .sees = rule::bottom_right};
                expect_right<f32>(c, accuracy::strict);
            }
        }
    }
}

}    // namespace
}    // namespace imbrex_test
