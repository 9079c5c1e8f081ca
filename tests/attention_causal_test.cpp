// Who sees whom, shown by equal scores (q = 0) and values that are rows of the identity: out[i][j] is 1 / (number of keys that
// query i sees) where it sees key j, and exactly 0 elsewhere.
#include <string>
#include <string_view>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;

// One string a query, '1' where it sees the key. q_heads of 1 go to the narrow unit, of 12 to the wide one.
void expect_visible(rule r, std::vector<std::string_view> const& rows, index q_heads) {
    SCOPED_TRACE(testing::Message() << q_heads << " heads");
    index const q_tokens = static_cast<index>(rows.size()), kv_tokens = static_cast<index>(rows[0].size());
    attention_case const c{.q_tokens = q_tokens, .kv_tokens = kv_tokens, .q_heads = q_heads, .head_dim = 3, .head_dim_v = kv_tokens, .sees = r};
    call_tensors<f32> const t{c};
    std::ranges::fill(t.q.memory, 0.0f);
    std::ranges::fill(t.k.memory, 1.0f);
    for (index j = 0; j < kv_tokens; ++j) {
        for (index d = 0; d < kv_tokens; ++d) t.v.view.row(0, j, 0)[d] = j == d ? 1.0f : 0.0f;
    }
    ASSERT_OK(planned(t, r));
    for_each_row(t.out.view, [&](index, index i, index h, float const* out) {
        std::string_view const row = rows[static_cast<std::size_t>(i)];
        auto const seen = static_cast<float>(std::ranges::count(row, '1'));
        for (index j = 0; j < kv_tokens; ++j) {
            float const right = row[static_cast<std::size_t>(j)] == '1' ? 1 / seen : 0.0f;
            EXPECT_FLOAT_EQ(out[j], right) << "query " << i << ", key " << j;
            EXPECT_EQ(out[j] == 0, right == 0) << "query " << i << ", key " << j;
        }
        float const lse = *imbrex::bhs(t.lse.data(), t.q.view.shape).at(0, h, i);
        if (seen == 0) {
            EXPECT_EQ(lse, -std::numeric_limits<float>::infinity()) << "query " << i;
        } else {
            EXPECT_NEAR(lse, std::log(seen), 1e-6) << "query " << i;
        }
    });
}

class AttentionCausal : public Seeded, public testing::WithParamInterface<index> {};

TEST_P(AttentionCausal, BottomRightOneQueryOfEightKeysSeesAllAndTopLeftOnlyTheFirst) {
    expect_visible(rule::bottom_right, {"11111111"}, GetParam());
    expect_visible(rule::top_left, {"10000000"}, GetParam());
}

TEST_P(AttentionCausal, BottomRightPutsTheLastQueryAtTheLastKey) {
    expect_visible(rule::bottom_right, {"11110", "11111"}, GetParam());
    expect_visible(rule::bottom_right, {"100", "110", "111"}, GetParam());
}

TEST_P(AttentionCausal, TopLeftPutsTheFirstQueryAtTheFirstKey) {
    expect_visible(rule::top_left, {"10000", "11000"}, GetParam());
    expect_visible(rule::top_left, {"100", "110", "111"}, GetParam());
}

TEST_P(AttentionCausal, BottomRightQueriesBeforeTheFirstKeyAreEmpty) {
    expect_visible(rule::bottom_right, {"00", "00", "00", "10", "11"}, GetParam());
}

TEST_P(AttentionCausal, TopLeftDoesNotFlipWhenThereAreMoreQueriesThanKeys) {
    expect_visible(rule::top_left, {"10", "11", "11", "11", "11"}, GetParam());
}

TEST_P(AttentionCausal, TwoNewTokensAfterFourCachedOnesSeeThemAndThemselves) {
    expect_visible(rule::bottom_right, {"111110", "111111"}, GetParam());
}

TEST_P(AttentionCausal, FullShowsEveryKeyToEveryQuery) {
    expect_visible(rule::full, {"1111111", "1111111"}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Heads, AttentionCausal, testing::Values(1, 3, 12), testing::PrintToStringParamName());

class AttentionChunks : public Seeded {};

// Queries [first, first + count) against the keys up to the last of them, as an engine with a kv cache calls.
void run_chunk(call_tensors<f32> const& t, index first, index count, tensor_view<float> out) {
    auto const part = [](auto view, index from, index n) {
        view.data = view.row(0, from, 0);
        view.shape.tokens = n;
        return view;
    };
    imbrex::dense_kv const kv{part(t.k.view, 0, first + count), part(t.v.view, 0, first + count)};
    ASSERT_OK(planned(part(t.q.view, first, count), kv, part(out, first, count), imbrex::causal{imbrex::align::bottom_right}));
}

TEST_F(AttentionChunks, PrefillInChunksOfAnySizeEqualsPrefillInOnePiece) {
    attention_case const c{.q_tokens = 200, .kv_tokens = 200, .q_heads = 4, .kv_heads = 2, .head_dim = 48, .sees = rule::bottom_right, .memory = order::bshd};
    call_tensors<f32> const t{c};
    fill(t);
    ASSERT_OK(planned(t, c.sees));
    expect_accurate(t, visibility_of(c), accuracy::strict);
    double const value = largest(t.v.view);
    for (index const chunk : {1, 3, 16, 64, 67, 128, 199}) {
        SCOPED_TRACE(testing::Message() << "chunks of " << chunk);
        tensor<float> const out{c.out(), c.memory};
        for (index first = 0; first < c.q_tokens; first += chunk) run_chunk(t, first, std::min(chunk, c.q_tokens - first), out.view);
        double worst = 0;
        for (std::size_t i = 0; i < out.memory.size(); ++i) {
            ASSERT_FALSE(std::isnan(out.memory[i]));
            worst = std::max(worst, std::abs(double{out.memory[i]} - double{t.out.memory[i]}));
        }
        EXPECT_LE(worst, 4e-6 * value);
    }
}

}    // namespace
}    // namespace imbrex_test
