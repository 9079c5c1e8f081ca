// observer.hpp: tiles are counted as they were treated, whatever the threads, and watching changes no bit.
#include "imbrex/observer.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::align;
using imbrex::causal;
using imbrex::tile_counters;
using imbrex::tile_counts;
using f32 = imbrex::precision<float>;

constexpr index lanes = imbrex::lane_count<float>;
using small_tiles = imbrex::fixed_tiles<imbrex::tile_shape{lanes, 128}>;

static_assert(imbrex::tile_observer<imbrex::no_observer> && imbrex::tile_observer<tile_counters>);
static_assert(!imbrex::tile_observer<int> && !imbrex::tile_observer<tile_counters const>);
static_assert(imbrex::observes<tile_counters> && !imbrex::observes<imbrex::no_observer const&>);

struct threads {
    index workers;
    index max_workers() const { return workers; }
    void run(index n, imbrex::task_ref task) const {
        std::vector<std::jthread> all;
        for (index i = 0; i < n; ++i) all.emplace_back([=] { task(i); });
    }
};

class Observer : public Seeded {
protected:
    template <class Rule, class O>
    static void call(call_tensors<f32> const& t, Rule const& rule, index workers, O& observer) {
        threads const executor{workers};
        imbrex::options const o{
            .lse = imbrex::bhs(t.lse.data(), t.q.view.shape), .executor = executor, .workspace = imbrex::allocate{}};
        ASSERT_OK(imbrex::attention<small_tiles>(t.q.view, t.kv(), t.out.view, rule, o, observer));
    }
    template <class Rule>
    static void expect_counts(call_tensors<f32> const& t, Rule const& rule, tile_counts const& expected) {
        for (index const workers : {1, 3}) {
            tile_counters counters;
            call(t, rule, workers, counters);
            tile_counts const c = counters.total();
            EXPECT_EQ(c.skipped, expected.skipped);
            EXPECT_EQ(c.full, expected.full);
            EXPECT_EQ(c.partial, expected.partial);
        }
    }
};

// 1024 queries in tiles of `lanes` rows, 1024 keys in 8 tiles of 128. A row tile within the b-th 128 queries sees the b key tiles
// before in full and one in part; 7 - b are beyond it. There are 128 / lanes such row tiles for each b from 0 to 7.
TEST_F(Observer, CausalCountsAreThoseDoneByHand) {
    constexpr index each = 128 / lanes, heads = 2 * 3;
    call_tensors<f32> const t{{.batch = 2, .q_tokens = 1024, .kv_tokens = 1024, .q_heads = 3, .kv_heads = 3, .head_dim = 8}};
    fill(t);
    tile_counts const expected{28 * each * heads, 28 * each * heads, 8 * each * heads};
    expect_counts(t, causal{align::top_left}, expected);
    expect_counts(t, causal{align::bottom_right}, expected);
}

// 4 queries at the end of 1000 keys in 8 tiles.
TEST_F(Observer, FewRowsAreCountedToo) {
    call_tensors<f32> const t{{.q_tokens = 4, .kv_tokens = 1000, .q_heads = 2, .kv_heads = 2, .head_dim = 8}};
    fill(t);
    expect_counts(t, causal{align::bottom_right}, {0, 7 * 2, 1 * 2});
    expect_counts(t, causal{align::top_left}, {7 * 2, 0, 1 * 2});        // the bounds leave 4 keys
    expect_counts(t, !causal{align::bottom_right}, {7 * 2, 0, 1 * 2});    // no bounds: classified `none`
}

struct item_list {
    std::mutex lock;
    std::vector<tile_counts> items;
    void item(tile_counts const& counts) {
        std::lock_guard const held{lock};
        items.push_back(counts);
    }
};

TEST_F(Observer, IsToldOfEveryWorkItemOnceAndChangesNoBit) {
    call_tensors<f32> const t{{.batch = 2, .q_tokens = 5 * lanes - 1, .kv_tokens = 300, .q_heads = 2, .kv_heads = 2, .head_dim = 8}},
        plain{{.batch = 2, .q_tokens = 5 * lanes - 1, .kv_tokens = 300, .q_heads = 2, .kv_heads = 2, .head_dim = 8}};
    fill(t);
    item_list list;
    call(t, causal{align::top_left}, 3, list);
    EXPECT_EQ(list.items.size(), 2u * 2u * 5u);
    for (tile_counts const& c : list.items) EXPECT_EQ(c.skipped + c.full + c.partial, 3);

    std::ranges::copy(t.q.memory, plain.q.memory.data());
    std::ranges::copy(t.k.memory, plain.k.memory.data());
    std::ranges::copy(t.v.memory, plain.v.memory.data());
    ASSERT_OK(planned<small_tiles>(plain, rule::top_left));
    EXPECT_TRUE(same_bits(t.out.memory, plain.out.memory));
    EXPECT_TRUE(same_bits(t.lse, plain.lse));
}

TEST_F(Observer, CountersAddUpOverCallsUntilTheyAreReset) {
    call_tensors<f32> const t{{.q_tokens = 4, .kv_tokens = 1000, .head_dim = 8}};
    fill(t);
    tile_counters counters;
    call(t, causal{align::bottom_right}, 1, counters);
    call(t, causal{align::bottom_right}, 1, counters);
    EXPECT_EQ(counters.total(), (tile_counts{0, 14, 2}));
    counters.reset();
    EXPECT_EQ(counters.total(), tile_counts{});
}

}    // namespace
}    // namespace imbrex_test
