// One plan, many calls: lengths may shrink and grow within its capacity.
#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;

class AttentionPlan : public Seeded {
protected:
    // A call on p with a workspace of exactly its size gives what f64 says, and the bits of a call on a plan of its own where that
    // takes the same path.
    void expect_right_on(imbrex::plan const& p, attention_case const& c) {
        SCOPED_TRACE(testing::Message() << c << " on " << imbrex::path_of(p, c.q_tokens).view());
        call_tensors<f32> const t{c};
        fill(t);
        guarded<std::byte> workspace{imbrex::workspace_bytes(p)};
        imbrex::options const o{.lse = imbrex::bhs(t.lse.data(), c.q()), .workspace = workspace};
        with_rule(c.sees, [&](auto const& r) { ASSERT_OK(imbrex::attention(p, t.q.view, t.kv(), t.out.view, r, o)); });
        expect_accurate(t, visibility_of(c), accuracy::strict);

        imbrex::plan own;
        ASSERT_OK(imbrex::plan_for(t.q.view, t.kv(), t.out.view, own));
        ASSERT_EQ(own.unit(c.q_tokens), p.unit(c.q_tokens));
        tensor<float> const out{c.out(), c.memory};
        with_rule(c.sees, [&](auto const& r) { ASSERT_OK(planned(t.q.view, t.kv(), out.view, r)); });
        EXPECT_TRUE(same_bits(t.out.memory, out.memory));
    }
};

TEST_F(AttentionPlan, ServesEveryLengthUpToItsCapacity) {
    for (imbrex::kv_layout const layout : {imbrex::kv_layout::contiguous, imbrex::kv_layout::strided}) {
        imbrex::plan p;
        ASSERT_OK((imbrex::make_plan<f32>(
            {.batch = 2, .q_tokens = 300, .kv_tokens = 400, .q_heads = 8, .kv_heads = 8, .head_dim = 40, .head_dim_v = 24, .layout = layout}, p)));
        ASSERT_EQ(p.copy_bytes > 0, layout == imbrex::kv_layout::strided);
        struct {
            index batch, q, kv;
        } const calls[] = {{2, 300, 400}, {1, 300, 5}, {2, 1, 400}, {2, 270, 0}, {1, 8, 131}, {1, 64, 1}, {2, 0, 7}, {2, 300, 399}};
        for (auto const& n : calls) {
            for (order const memory : {order::bhsd, order::bshd}) {
                expect_right_on(p, {.batch = n.batch, .q_tokens = n.q, .kv_tokens = n.kv, .q_heads = 8, .kv_heads = 8, .head_dim = 40,
                                    .head_dim_v = 24, .sees = rule::bottom_right, .memory = memory});
            }
        }
    }
}

TEST_F(AttentionPlan, ServesADecodeLoopWithoutPlanningAnew) {
    imbrex::plan p;
    ASSERT_OK((imbrex::make_plan<f32>({.q_tokens = 1, .kv_tokens = 140, .q_heads = 4, .kv_heads = 2, .head_dim = 32}, p)));
    for (index kv = 1; kv <= 140; ++kv) {
        expect_right_on(p, {.q_tokens = 1, .kv_tokens = kv, .q_heads = 4, .kv_heads = 2, .head_dim = 32, .sees = rule::bottom_right});
    }
}

TEST_F(AttentionPlan, OfOneRuleServesEveryRule) {
    imbrex::plan p;
    ASSERT_OK((imbrex::make_plan<f32>({.q_tokens = 90, .kv_tokens = 90, .head_dim = 16}, p)));
    for (rule const r : {rule::full, rule::top_left, rule::bottom_right}) expect_right_on(p, {.q_tokens = 80, .kv_tokens = 90, .head_dim = 16, .sees = r});
}

// What is promised: at most 512 KiB of scratch for a thread, at any length, up to a head_dim of 256 in BHSD, beside the states of
// parts and, of bf16 multiplied in pairs, packed kv heads within their budget.
template <class P>
void expect_small_scratch() {
    for (index const head_dim : {1, 64, 65, 128, 256}) {
        for (index const q_tokens : {1, 100, 1 << 20}) {
            imbrex::plan p;
            ASSERT_OK((imbrex::make_plan<P>({.batch = 64, .q_tokens = q_tokens, .kv_tokens = 1 << 20, .q_heads = 32, .kv_heads = 8, .head_dim = head_dim}, p)));
            auto const without_states = [&](index workers) {
                index const packed = p.copy_bytes > 0 ? p.heads_per_wave(workers) * p.copy_bytes : 0;
                EXPECT_TRUE(packed == 0 || (p.wide != imbrex::wide_kind::widened && packed <= imbrex::tune::copy_budget_bytes));
                index const states = imbrex::workspace_layout::of(p, workers, nullptr).state_count * p.split.state_bytes;
                return imbrex::workspace_bytes(p, workers) - static_cast<std::size_t>(states + packed);
            };
            std::size_t const one = without_states(1), nine = without_states(9);
            EXPECT_LE(one, 512u << 10) << "head_dim " << head_dim << ", " << q_tokens << " queries";
            EXPECT_LE((nine - one) / 8, 512u << 10);
            EXPECT_GT(nine, one);
        }
    }
}

TEST_F(AttentionPlan, NeedsAtMost512KiBOfScratchPerThread) {
    expect_small_scratch<f32>();
    expect_small_scratch<imbrex::precision<imbrex::bf16>>();
    expect_small_scratch<imbrex::precision<float, imbrex::bf16, imbrex::f16, float>>();
}

}    // namespace
}    // namespace imbrex_test
