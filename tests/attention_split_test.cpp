// The keys of a kv head that few rows read are split among threads: the same values, and the same bits whoever computes them.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "varlen_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::plan;
using f32 = imbrex::precision<float>;
using low = imbrex::precision<float, bf16, bf16, bf16>;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The shapes here have 1 KB of keys and values a token in f32.
constexpr index head_dim = 128;
constexpr index part = imbrex::tune::part_bytes / (2 * head_dim * 4);

struct threads {
    index workers;
    index max_workers() const { return workers; }
    void run(index n, imbrex::task_ref task) const {
        std::vector<std::jthread> all;
        for (index i = 0; i < n; ++i) all.emplace_back([=] { task(i); });
    }
};
// The caller's thread alone, the last task first.
struct backwards {
    index workers;
    index max_workers() const { return workers; }
    static void run(index n, imbrex::task_ref task) {
        for (index i = n - 1; i >= 0; --i) task(i);
    }
};

class AttentionSplit : public Seeded {
protected:
    template <class P>
    static plan plan_of(call_tensors<P> const& t) {
        plan p;
        EXPECT_OK(imbrex::plan_for(t.q.view, t.kv(), t.out.view, p));
        return p;
    }
    template <class P>
    static index parts_of(call_tensors<P> const& t) {
        return plan_of(t).kv_parts(t.q.view.shape.tokens, t.k.view.shape.tokens);
    }
};

TEST_F(AttentionSplit, LengthsAroundThePartsAreRight) {
    struct {
        index keys, parts;
    } const cases[] = {{part - 1, 1}, {part, 1}, {part + 1, 2}, {2 * part - 1, 2}, {2 * part, 2}, {2 * part + 1, 3}, {5 * part + 77, 6}};
    for (auto const& n : cases) {
        attention_case const c{.q_tokens = 1, .kv_tokens = n.keys, .q_heads = 4, .kv_heads = 1, .head_dim = head_dim, .sees = rule::bottom_right};
        call_tensors<f32> const t{c};
        EXPECT_EQ(parts_of(t), n.parts) << c;
        expect_right<f32>(c, accuracy::strict);
    }
}

TEST_F(AttentionSplit, EveryShapeOfRowsAndHeadsIsRight) {
    attention_case const cases[] = {
        {.batch = 2, .q_tokens = 1, .kv_tokens = 2 * part + 5, .q_heads = 2, .kv_heads = 2, .head_dim = head_dim, .sees = rule::full},
        {.q_tokens = 3, .kv_tokens = 3 * part - 1, .q_heads = 4, .kv_heads = 2, .head_dim = head_dim, .sees = rule::bottom_right, .memory = order::bshd},
        {.q_tokens = 8, .kv_tokens = 2 * part, .q_heads = 1, .kv_heads = 1, .head_dim = head_dim, .sees = rule::top_left},    // sees 8 keys of the first part
        {.q_tokens = 1, .kv_tokens = 3 * part, .q_heads = 7, .kv_heads = 1, .head_dim = 192, .head_dim_v = 127, .sees = rule::full},
    };
    for (attention_case const& c : cases) {
        expect_right<f32>(c);
        call_tensors<f32> const t{c};
        EXPECT_EQ(parts_of(t) > 1, plan_of(t).unit(c.q_tokens) == imbrex::unit_kind::narrow);    // fewer rows with short vectors
    }
    expect_right<low>({.q_tokens = 2, .kv_tokens = 5 * part, .q_heads = 4, .kv_heads = 2, .head_dim = head_dim, .sees = rule::bottom_right});
    expect_right<imbrex::precision<double>>({.q_tokens = 1, .kv_tokens = 3 * part, .q_heads = 2, .kv_heads = 1, .head_dim = head_dim, .sees = rule::full});
}

TEST_F(AttentionSplit, RowsOfTheWideUnitAreNotSplit) {
    call_tensors<f32> const t{{.q_tokens = 9, .kv_tokens = 4 * part, .head_dim = head_dim}};
    EXPECT_EQ(parts_of(t), 1);
    plan const p = plan_of(t);
    EXPECT_EQ(p.kv_parts(p.narrow_rows, 4 * part), 4);
    EXPECT_EQ(p.kv_parts(p.narrow_rows + 1, 4 * part), 1);
    EXPECT_EQ(p.kv_parts(0, 4 * part), 1);
}

TEST_F(AttentionSplit, AnyThreadsGiveTheSameBits) {
    for (attention_case const& c : {attention_case{.q_tokens = 1, .kv_tokens = 5 * part + 9, .q_heads = 4, .kv_heads = 1, .head_dim = head_dim, .sees = rule::bottom_right},
                                    attention_case{.batch = 2, .q_tokens = 2, .kv_tokens = 3 * part, .q_heads = 4, .kv_heads = 2, .head_dim = head_dim, .sees = rule::full}}) {
        call_tensors<f32> const one{c}, many{c};
        fill(one);
        std::ranges::copy(one.q.memory, many.q.memory.data());
        std::ranges::copy(one.k.memory, many.k.memory.data());
        std::ranges::copy(one.v.memory, many.v.memory.data());
        ASSERT_OK(planned(one, c.sees));
        auto const expect_same = [&](imbrex::executor_ref e) {
            many.out.memory.poison();
            many.lse.poison();
            ASSERT_OK(planned(many, c.sees, {.executor = e}));
            EXPECT_TRUE(same_bits(one.out.memory, many.out.memory));
            EXPECT_TRUE(same_bits(one.lse, many.lse));
        };
        for (index const workers : {1, 2, 3, 7}) {
            SCOPED_TRACE(testing::Message() << workers << " workers");
            threads on_threads{workers};
            backwards in_one{workers};
            for (int repetition = 0; repetition < 3; ++repetition) expect_same(on_threads);
            expect_same(in_one);
        }
    }
}

// Heads whose rows lie side by side are read together, and each comes to what it comes to alone.
TEST_F(AttentionSplit, HeadsReadTogetherGiveTheBitsOfEachAlone) {
    attention_case c{.batch = 2, .q_tokens = 1, .kv_tokens = 2 * part + 77, .q_heads = 6, .kv_heads = 3, .head_dim = head_dim};
    call_tensors<f32> const alone{c};
    c.memory = order::bshd;
    call_tensors<f32> const together{c};
    ASSERT_EQ(plan_of(alone).heads_together, 1);
    ASSERT_EQ(plan_of(together).heads_together, 3);
    fill(alone);
    auto const copy = [](auto const& from, auto const& to) {
        for_each_row(from.view, [&](index b, index i, index h, float const* row) { std::copy_n(row, from.view.shape.head_dim, to.view.row(b, i, h)); });
    };
    copy(alone.q, together.q), copy(alone.k, together.k), copy(alone.v, together.v);
    // Each query head sees another number of keys, some only those of the first part.
    imbrex::mask_fn const fewer{[](auto const& ctx, auto const& q, auto const& kv) { return kv + ctx.head() * 900 <= q; }, imbrex::always_partial{},
                                [](imbrex::head_context const& ctx, imbrex::position, imbrex::position last) {
                                    return imbrex::kv_range{0, std::max(0, last + 1 - 900 * ctx.head_first)};
                                }};
    auto const expect_same = [&](auto const& rule) {
        ASSERT_OK(planned(alone.q.view, alone.kv(), alone.out.view, rule));
        for (index const workers : {1, 2, 9}) {
            threads const executor{workers};
            together.out.memory.poison();
            ASSERT_OK(planned(together.q.view, together.kv(), together.out.view, rule, {.executor = executor}));
            for_each_row(alone.out.view, [&](index b, index i, index h, float const* row) {
                EXPECT_EQ(std::memcmp(row, together.out.view.row(b, i, h), head_dim * sizeof(float)), 0) << b << ' ' << h;
            });
        }
    };
    expect_same(imbrex::full{});
    expect_same(fewer);
}

// More heads than there are states for: several waves.
TEST_F(AttentionSplit, ManyHeadsAreTakenInWaves) {
    attention_case const c{.batch = 5, .q_tokens = 1, .kv_tokens = 2 * part + 1, .q_heads = 8, .kv_heads = 8, .head_dim = head_dim, .sees = rule::full};
    call_tensors<f32> const t{c};
    plan const p = plan_of(t);
    ASSERT_LT(imbrex::workspace_layout::of(p, 1, nullptr).state_count, 40 * 3);
    fill(t);
    ASSERT_OK(planned(t, c.sees));
    expect_accurate(t, sees_everything());
    tensor<float> const first{c.out(), c.memory};
    std::ranges::copy(t.out.memory, first.memory.data());
    threads executor{3};
    ASSERT_OK(planned(t, c.sees, {.executor = executor}));
    EXPECT_TRUE(same_bits(first.memory, t.out.memory));
}

// The explicit policy: as many parts as the workers want, the values right, the bits the same for as many workers.
TEST_F(AttentionSplit, WhereWorkersDecideShortCachesAreSplitToo) {
    attention_case const c{.batch = 2, .q_tokens = 1, .kv_tokens = 1500, .q_heads = 4, .kv_heads = 1, .head_dim = head_dim, .sees = rule::bottom_right};
    call_tensors<f32> const t{c};
    fill(t);
    plan p;
    ASSERT_OK(imbrex::make_plan<f32>({.batch = 2, .q_tokens = 1, .kv_tokens = 2000, .q_heads = 4, .kv_heads = 1, .head_dim = head_dim, .split = imbrex::split_policy::by_workers}, p));
    for (index const workers : {1, 3, 7}) {
        guarded<std::byte> workspace{imbrex::workspace_bytes(p, workers)};
        guarded<float> first{t.out.memory.size()};
        for (bool const again : {false, true}) {
            threads on_threads{workers};
            backwards in_one{workers};
            imbrex::executor_ref const e = again ? imbrex::executor_ref{in_one} : imbrex::executor_ref{on_threads};
            ASSERT_OK(imbrex::attention(p, t.q.view, t.kv(), t.out.view, imbrex::causal{imbrex::align::bottom_right},
                                        {.lse = imbrex::bhs(t.lse.data(), c.q()), .executor = e, .workspace = workspace}));
            expect_accurate(t, visibility_of(c), accuracy::strict);
            if (again) {
                EXPECT_TRUE(same_bits(first, t.out.memory));
            } else {
                std::ranges::copy(t.out.memory, first.data());
            }
        }
    }
}

class VarlenSplit : public VarlenFixture {};

// Decode over long and short caches, prefill, and sequences without queries or keys; tokens of no sequence are NaN.
TEST_F(VarlenSplit, MixedBatchesAreRightOnAnyThreadsAndEachSequenceHasTheBitsItHasAlone) {
    auto const length = [](index n) { return static_cast<position>(n); };
    for (order const memory : {order::bshd, order::bhsd}) {
        varlen_case const c{.name = "mixed",
                            .q_starts = starts_of({1, 1, 40, 0, 2, 1, 1}, 3),
                            .kv_starts = starts_of({length(2 * part + 1), 50, 60, length(3 * part), length(3 * part), 0, length(part)}, 2),
                            .q_tokens = 55,
                            .kv_tokens = 9 * part + 120,
                            .q_heads = 4,
                            .kv_heads = 2,
                            .head_dim = head_dim,
                            .sees = rule::bottom_right,
                            .memory = memory};
        packed_tensors<f32> const t{c};
        fill_sequences(t);
        ASSERT_OK(t.run());
        expect_right(t);
        expect_others_unwritten(t);
        guarded<float> const first{t.out.memory.size()}, first_lse{t.lse.size()};
        std::ranges::copy(t.out.memory, first.data());
        std::ranges::copy(t.lse, first_lse.data());
        for (index const workers : {2, 3, 7}) {
            threads executor{workers};
            ASSERT_OK(t.run({.executor = executor}));
            EXPECT_TRUE(same_bits(first, t.out.memory) && same_bits(first_lse, t.lse)) << workers << " workers";
        }
        for (std::size_t s = 0; s < t.sequences(); ++s) {
            auto const out = sequence_of(t.out.view, c.q_starts, s);
            tensor<float> const alone{out.shape, order::bshd};
            ASSERT_OK(planned(sequence_of(t.q.view, c.q_starts, s), imbrex::dense_kv{sequence_of(t.k.view, c.kv_starts, s), sequence_of(t.v.view, c.kv_starts, s)}, alone.view,
                              imbrex::causal{imbrex::align::bottom_right}));
            for_each_row(out, [&](index, index i, index h, float const* row) { EXPECT_EQ(std::memcmp(row, alone.view.row(0, i, h), head_dim * sizeof(float)), 0) << "sequence " << s; });
        }
    }
}

// What is left of some keys: a window, sinks, hidden keys. One rule for all, so that it is compiled once.
using ruled = decltype((imbrex::causal{imbrex::align::bottom_right} && imbrex::window{.left = 0, .right = 0}) | imbrex::sink_logits<float>{});

struct span_rule {
    index left;
    std::array<float, 2> sinks;
    ruled rule() const { return (imbrex::causal{imbrex::align::bottom_right} && imbrex::window{.left = static_cast<position>(left), .right = 0}) | imbrex::sink_logits<float>{sinks}; }
};

class AttentionSplitRules : public AttentionSplit {
protected:
    static constexpr index keys = 4 * part + 100;
    attention_case const c{.q_tokens = 2, .kv_tokens = keys, .q_heads = 2, .kv_heads = 1, .head_dim = head_dim, .memory = order::bshd};
    call_tensors<f32> const t{c};
    AttentionSplitRules() { fill(t); }

    static visibility within(index left) {
        return [=](index, index, index i, index j) {
            index const q = keys - 2 + i;
            return j <= q && j >= q - left;
        };
    }
    template <class Observer>
    void call(span_rule const& r, Observer&& observer) {
        threads executor{3};
        ASSERT_OK(imbrex::attention(t.q.view, t.kv(), t.out.view, r.rule(), {.lse = imbrex::bhs(t.lse.data(), c.q()), .executor = executor, .workspace = imbrex::allocate{}}, observer));
    }
    void expect_right(span_rule const& r) {
        score_effects effects;
        effects.sink = [&](index h) { return r.sinks[static_cast<std::size_t>(h)]; };
        expect_accurate(t, within(r.left), accuracy::rule, {}, effects);
    }
};

TEST_F(AttentionSplitRules, ASinkCountsOnceHoweverManyParts) {
    imbrex::tile_counters none;
    for (span_rule const& r : {span_rule{keys, {3.f, -2.f}}, span_rule{keys, {20.f, -std::numeric_limits<float>::infinity()}}}) {
        call(r, none);
        expect_right(r);
    }
}

// NaN in every key that no query sees; tiles of parts add up to those of one.
TEST_F(AttentionSplitRules, AWindowLeavesOutWholePartsAndWhatTheyHold) {
    float const off = -std::numeric_limits<float>::infinity();
    imbrex::plan const p = plan_of(t);
    index const tiles = (keys + p.narrow_kv_cols - 1) / p.narrow_kv_cols;
    for (index const left : {keys - 1 - part, part + 500, index{700}, index{98}, index{0}}) {
        span_rule const r{left, {off, 1.f}};
        index const first_seen = std::max<index>(0, keys - 2 - left);
        for (index j = 0; j < first_seen; ++j) {
            std::fill_n(t.k.view.row(0, j, 0), head_dim, nan);
            std::fill_n(t.v.view.row(0, j, 0), head_dim, nan);
        }
        imbrex::tile_counters counters;
        call(r, counters);
        expect_right(r);
        imbrex::tile_counts const total = counters.total();
        EXPECT_EQ(total.skipped + total.full + total.partial, tiles);
        EXPECT_GE(total.skipped, first_seen / p.narrow_kv_cols);
    }
}

namespace {

struct items_with_work {
    std::atomic<index> items{0}, idle{0};
    void item(imbrex::tile_counts const& t) noexcept {
        ++items;
        if (t.full + t.partial == 0) ++idle;
    }
};

}    // namespace

// Not the whole cache, most of whose parts would have nothing to do.
TEST_F(AttentionSplitRules, WhatAWindowSeesIsSplit) {
    float const off = -std::numeric_limits<float>::infinity();
    for (index const parts : {4, 3, 2, 1}) {
        span_rule const r{(parts - 1) * part + part / 2, {off, off}};
        items_with_work items;
        call(r, items);
        expect_right(r);
        EXPECT_EQ(items.items, parts) << "of a window of " << r.left << " keys";
        EXPECT_EQ(items.idle, 0);
    }
}

TEST_F(AttentionSplitRules, WhatARingHoldsIsSplit) {
    index const capacity = 2 * part + 300;
    tensor<float> const k{{1, capacity, 1, head_dim}, c.memory}, v{{1, capacity, 1, head_dim}, c.memory};
    for (index j = keys - capacity; j < keys; ++j) {
        std::copy_n(t.k.view.row(0, j, 0), head_dim, k.view.row(0, j % capacity, 0));
        std::copy_n(t.v.view.row(0, j, 0), head_dim, v.view.row(0, j % capacity, 0));
    }
    float const off = -std::numeric_limits<float>::infinity();
    span_rule const r{capacity - 3, {off, off}};    // of which both queries see the same in the ring
    std::array const lengths{static_cast<imbrex::position>(keys)};
    items_with_work items;
    threads executor{3};
    ASSERT_OK(imbrex::attention(t.q.view, imbrex::ring_kv{k.view, v.view, lengths}, t.out.view, r.rule(),
                                {.lse = imbrex::bhs(t.lse.data(), c.q()), .executor = executor, .workspace = imbrex::allocate{}}, items));
    expect_right(r);
    EXPECT_EQ(items.items, 3);
    EXPECT_EQ(items.idle, 0);
}

TEST_F(AttentionSplitRules, WorkspacesOfExactlyTheirSizeDoWhateverTheyHold) {
    span_rule const r{part + 500, {0.5f, 1.f}};
    imbrex::plan const p = plan_of(t);
    call(r, imbrex::tile_counters{});
    tensor<float> const expected{c.out(), c.memory};
    std::ranges::copy(t.out.memory, expected.memory.data());
    for (guard const where : {guard::after, guard::before}) {
        guarded<std::byte> workspace{imbrex::workspace_bytes(p), where};
        for (int const held : {0xff, 0x00, 0x7f}) {
            std::ranges::fill(workspace, static_cast<std::byte>(held));
            imbrex::tile_counters counters;
            ASSERT_OK(imbrex::attention(p, t.q.view, t.kv(), t.out.view, r.rule(), {.workspace = workspace}, counters));
            EXPECT_TRUE(same_bits(t.out.memory, expected.memory));
        }
    }
}

TEST_F(AttentionSplitRules, NanInAKeyReachesOnlyTheRowsThatSeeIt) {
    t.k.view.row(0, keys - 1, 0)[5] = nan;    // seen by the second query
    call({keys, {0.f, 0.f}}, imbrex::tile_counters{});
    for_each_row(t.out.view, [&](index, index i, index h, float const* row) {
        EXPECT_EQ(std::isnan(row[0]), i == 1);
        EXPECT_EQ(std::isnan(*imbrex::bhs(t.lse.data(), c.q()).at(0, h, i)), i == 1);
    });
    t.k.view.row(0, 3, 0)[5] = nan;    // and by both, in the first part
    call({keys, {0.f, 0.f}}, imbrex::tile_counters{});
    for_each_row(t.out.view, [&](index, index, index, float const* row) { EXPECT_TRUE(std::isnan(row[0])); });
}

}    // namespace
}    // namespace imbrex_test
