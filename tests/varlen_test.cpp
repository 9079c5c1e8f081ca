// Packed sequences: each is computed as if it were alone, whatever its mates, the threads and the tokens between.
#include <atomic>
#include <thread>

#include "varlen_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::bf16;
using imbrex::causal;
using imbrex::precision;
using f32 = precision<float>;

varlen_case const cases[] = {
    {.name = "different lengths on both sides, tokens before and after",
     .q_starts = starts_of({7, 0, 130, 1, 66}, 3), .kv_starts = starts_of({200, 5, 0, 40, 300}, 2), .q_tokens = 220, .kv_tokens = 560,
     .q_heads = 4, .kv_heads = 2, .head_dim = 40},
    {.name = "the same, causal from the top left, BHSD",
     .q_starts = starts_of({7, 0, 130, 1, 66}, 3), .kv_starts = starts_of({200, 5, 0, 40, 300}, 2), .q_tokens = 220, .kv_tokens = 560,
     .q_heads = 4, .kv_heads = 2, .head_dim = 40, .sees = rule::top_left, .memory = order::bhsd},
    {.name = "prefill and decode in one call",
     .q_starts = starts_of({1, 1, 200, 5, 1}), .kv_starts = starts_of({300, 1, 210, 77, 1030}), .q_tokens = 208, .kv_tokens = 1618,
     .q_heads = 8, .kv_heads = 2, .head_dim = 64, .sees = rule::bottom_right},
    {.name = "empty sequences first and last, D=256",
     .q_starts = {0, 0, 1208, 2048, 2048}, .kv_starts = {0, 0, 1208, 2048, 2048}, .q_tokens = 2050, .kv_tokens = 2050,
     .head_dim = 256, .sees = rule::bottom_right},
    {.name = "one key for many queries, bottom right",
     .q_starts = {0, 76, 110, 256}, .kv_starts = {0, 1, 2, 3}, .q_tokens = 256, .kv_tokens = 3, .q_heads = 2, .sees = rule::bottom_right},
    {.name = "one key for many queries, top left",
     .q_starts = {0, 76, 110, 256}, .kv_starts = {0, 1, 2, 3}, .q_tokens = 256, .kv_tokens = 3, .q_heads = 2, .sees = rule::top_left},
    {.name = "many heads side by side, copied in waves",
     .q_starts = starts_of({280, 0, 1, 530, 7, 270}), .kv_starts = starts_of({300, 10, 320, 600, 0, 270}), .q_tokens = 1090,
     .kv_tokens = 1500, .q_heads = 6, .kv_heads = 6, .head_dim = 64, .sees = rule::bottom_right},
    {.name = "nothing but empty sequences",
     .q_starts = {4, 4, 4}, .kv_starts = {0, 3, 5}, .q_tokens = 9, .kv_tokens = 6},
    {.name = "no sequences", .q_starts = {4}, .kv_starts = {0}, .q_tokens = 9, .kv_tokens = 6},
    {.name = "no keys at all", .q_starts = {0, 3, 40}, .kv_starts = {2, 2, 2}, .q_tokens = 40, .kv_tokens = 2, .sees = rule::top_left},
};

template <class P>
class Varlen : public VarlenFixture {};
using precisions = testing::Types<f32, precision<bf16>, precision<float, bf16, bf16, float>>;
TYPED_TEST_SUITE(Varlen, precisions);

TYPED_TEST(Varlen, EverySequenceMatchesTheReferenceAndTokensOfNoneAreNeitherUsedNorWritten) {
    for (varlen_case const& c : cases) {
        for (guard const where : {guard::after, guard::before}) {
            SCOPED_TRACE(testing::Message() << c);
            packed_tensors<TypeParam> const t{c, where};
            this->fill_sequences(t);
            ASSERT_OK(t.run());
            this->expect_right(t);
            this->expect_others_unwritten(t);
            if (c.q_tokens > 1000) break;    // once is enough
        }
    }
}

// A thread for each task.
struct fresh_threads {
    index workers;
    index max_workers() const { return workers; }
    void run(index n, imbrex::task_ref task) const {
        std::vector<std::jthread> threads;
        for (index i = 0; i < n; ++i) threads.emplace_back([=] { task(i); });
    }
};

TYPED_TEST(Varlen, TheBitsAreThoseOfEachSequenceAloneForAnyNumberOfThreads) {
    for (varlen_case const& c : cases) {
        SCOPED_TRACE(testing::Message() << c);
        packed_tensors<TypeParam> const t{c}, alone{c};
        this->fill_sequences(t);
        for (std::size_t s = 0; s < t.sequences(); ++s) {
            imbrex::dense_kv const kv{sequence_of(t.k.view, c.kv_starts, s), sequence_of(t.v.view, c.kv_starts, s)};
            ASSERT_OK(with_rule(c.sees, [&](auto const& r) {
                return planned(sequence_of(t.q.view, c.q_starts, s), kv, sequence_of(alone.out.view, c.q_starts, s), r,
                               {.lse = alone.lse_of(s)});
            }));
        }
        for (index const workers : {1, 2, 3, 7}) {
            SCOPED_TRACE(testing::Message() << workers << " threads");
            t.out.memory.poison();
            t.lse.poison();
            fresh_threads const executor{workers};
            ASSERT_OK(t.run({.executor = executor}));
            EXPECT_TRUE(same_bits(t.out.memory, alone.out.memory));
            EXPECT_TRUE(same_bits(t.lse, alone.lse));
        }
    }
}

class VarlenCall : public VarlenFixture {};

TEST_F(VarlenCall, TheCaseOfWavesCopiesSomeSequencesAndNotOthers) {
    packed_tensors<f32> const t{cases[6]};
    imbrex::plan p;
    ASSERT_OK(imbrex::plan_for(t.queries(), t.kv(), t.out.view, p));
    EXPECT_EQ(p.shape.batch, 6);
    EXPECT_EQ(p.shape.q_tokens, 530);
    EXPECT_EQ(p.shape.kv_tokens, 600);
    EXPECT_TRUE(p.copies(530) && p.copies(280));
    EXPECT_FALSE(p.copies(7));
    EXPECT_LT(p.heads_per_wave(3), 6);
}

// f(queries, kv, out) of three dense sequences of 70 queries, and the same packed.
TEST_F(VarlenCall, EitherSideMayBePackedAndADenseBatchMayBeOne) {
    attention_case const c{.batch = 3, .q_tokens = 70, .kv_tokens = 90, .q_heads = 2, .head_dim = 32, .memory = order::bshd};
    starts const q_starts{0, 70, 140, 210}, kv_starts{0, 90, 180, 270};
    for (index const shared : {0, 1}) {
        call_tensors<f32> const t{c};
        fill(t);
        imbrex::dense_kv dense{t.k.view, t.v.view};
        starts kv_at = kv_starts;
        if (shared == 1) dense.k.shape.batch = dense.v.shape.batch = 1;
        causal const r{align::bottom_right};
        guarded<float> first{t.out.memory.size()}, first_lse{t.lse.size()};
        imbrex::options o{.lse = imbrex::bhs(first_lse.data(), t.q.view.shape)};
        ASSERT_OK(planned(t.q.view, dense, imbrex::bshd(first.data(), c.out()), r, o));
        auto const flat = [](auto view) {    // a dense batch of BSHD is packed already
            view.shape = {1, view.shape.batch * view.shape.tokens, view.shape.heads, view.shape.head_dim};
            return view;
        };
        imbrex::packed_queries const queries{flat(t.q.view), q_starts};
        imbrex::packed_kv const packed{flat(t.k.view), flat(t.v.view), kv_at};
        o.lse = {t.lse.data(), 2 * 70, 70, 1};
        auto const expect_same = [&](auto const& lse_at) {
            EXPECT_TRUE(same_bits(first, t.out.memory));
            for (index b = 0; b < 3; ++b) {
                for (index h = 0; h < 2; ++h) {
                    for (index i = 0; i < 70; ++i) {
                        ASSERT_EQ(*imbrex::bhs(first_lse.data(), t.q.view.shape).at(b, h, i), *lse_at(b, h, i));
                    }
                }
            }
            t.out.memory.poison();
            t.lse.poison();
        };
        auto const by_batch = [&](index b, index h, index i) { return imbrex::bhs(t.lse.data(), t.q.view.shape).at(b, h, i); };
        auto const by_token = [&](index b, index h, index i) { return imbrex::bhs(t.lse.data(), flat(t.q.view).shape).at(0, h, 70 * b + i); };
        if (shared == 0) {
            o.lse = imbrex::bhs(t.lse.data(), t.q.view.shape);
            ASSERT_OK(planned(t.q.view, packed, t.out.view, r, o));
            expect_same(by_batch);
            o.lse = imbrex::bhs(t.lse.data(), flat(t.q.view).shape);
            ASSERT_OK(planned(queries, packed, flat(t.out.view), r, o));
            expect_same(by_token);
        }
        o.lse = imbrex::bhs(t.lse.data(), flat(t.q.view).shape);
        ASSERT_OK(planned(queries, dense, flat(t.out.view), r, o));
        expect_same(by_token);
    }
}

TEST_F(VarlenCall, KeysAndValuesMayEachHaveABatchOfOne) {
    attention_case const c{.batch = 2, .q_tokens = 9, .kv_tokens = 20, .q_heads = 2, .head_dim = 16, .memory = order::bshd};
    call_tensors<f32> const t{c}, twice{c};
    fill(t);
    std::ranges::copy(t.q.memory, twice.q.memory.data());
    std::ranges::copy(t.v.memory, twice.v.memory.data());
    std::size_t const half = t.k.memory.size() / 2;
    for (std::size_t i = 0; i < 2 * half; ++i) twice.k.memory[i] = t.k.memory[i % half];
    imbrex::dense_kv kv{t.k.view, t.v.view};
    kv.k.shape.batch = 1;
    ASSERT_OK(planned(t.q.view, kv, t.out.view, imbrex::full{}));
    ASSERT_OK(planned(twice.q.view, twice.kv(), twice.out.view, imbrex::full{}));
    EXPECT_TRUE(same_bits(t.out.memory, twice.out.memory));
}

// Sequence s sees the keys from s on; what the rule is told of the call is what it says.
struct from_its_number_on {
    imbrex::call_shape* told;

    template <class Q, class K>
    auto keep(imbrex::head_context const& ctx, Q const&, K const& kv) const {
        return kv >= K(static_cast<position>(ctx.batch));
    }
    imbrex::coverage classify(imbrex::head_context const&, imbrex::tile_window const&) const { return imbrex::coverage::partial; }
    imbrex::status check(imbrex::call_shape const& call) const {
        *told = call;
        return {};
    }
};

TEST_F(VarlenCall, TheRuleKnowsTheSequenceAndTheLongestLengths) {
    varlen_case const c{.name = "", .q_starts = starts_of({1, 90, 0, 20}), .kv_starts = starts_of({6, 90, 3, 2}), .q_tokens = 111,
                        .kv_tokens = 101, .q_heads = 3, .kv_heads = 3, .head_dim = 16};
    packed_tensors<f32> const t{c};
    fill_sequences(t);
    imbrex::call_shape told;
    ASSERT_OK(planned(t.queries(), t.kv(), t.out.view, from_its_number_on{&told}, {.lse = t.lse_view()}));
    EXPECT_EQ(told.batch, 4);
    EXPECT_EQ(told.q_heads, 3);
    EXPECT_EQ(told.q_tokens, 90);
    EXPECT_EQ(told.kv_tokens, 90);
    for (std::size_t s = 0; s < 4; ++s) {
        largest_errors e;
        measure(sequence_of(t.q.view, c.q_starts, s), sequence_of(t.k.view, c.kv_starts, s), sequence_of(t.v.view, c.kv_starts, s),
                sequence_of(t.out.view, c.q_starts, s), t.lse_of(s),
                [=](index, index, index, index key) { return key >= static_cast<index>(s); }, 0.25, e);
        expect_small<float>(e, largest(sequence_of(t.v.view, c.kv_starts, s)));
    }
    EXPECT_EQ(*t.lse_of(3).at(0, 2, 19), -std::numeric_limits<float>::infinity());    // 2 keys, from 3 on
    EXPECT_EQ(t.out.view.row(0, 110, 2)[15], 0.0f);
}

TEST_F(VarlenCall, APlanForMoreAndLongerSequencesServesAndGivesTheSameBits) {
    varlen_case const& c = cases[2];
    packed_tensors<f32> const t{c}, again{c};
    fill_sequences(t);
    ASSERT_OK(t.run());
    imbrex::plan p;
    ASSERT_OK(imbrex::make_plan<f32>({.batch = 100, .q_tokens = 1000, .kv_tokens = 5000, .q_heads = 8, .kv_heads = 2, .head_dim = 64}, p));
    guarded<std::byte> workspace{imbrex::workspace_bytes(p)};
    ASSERT_OK(imbrex::attention(p, t.queries(), t.kv(), again.out.view, causal{align::bottom_right},
                                {.lse = again.lse_view(), .workspace = workspace}));
    EXPECT_TRUE(same_bits(t.out.memory, again.out.memory));
    EXPECT_TRUE(same_bits(t.lse, again.lse));
}

TEST_F(VarlenCall, AThousandSequencesOfRandomLengths) {
    std::mt19937 random{test_seed()};
    starts q{0}, kv{0};
    for (int i = 0; i < 1000; ++i) {
        q.push_back(q.back() + static_cast<position>(random() % 20));
        kv.push_back(kv.back() + static_cast<position>(random() % 40));
    }
    varlen_case const c{.name = "", .q_starts = q, .kv_starts = kv, .q_tokens = q.back(), .kv_tokens = kv.back(), .q_heads = 2,
                        .head_dim = 8, .sees = rule::bottom_right};
    packed_tensors<f32> const t{c};
    fill_sequences(t);
    fresh_threads const executor{3};
    ASSERT_OK(t.run({.executor = executor}));
    expect_right(t);
}

}    // namespace
}    // namespace imbrex_test
