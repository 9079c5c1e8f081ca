// work_order.hpp: every row tile of every kv head of every sequence is one item, the large sequences first.
#include "imbrex/work_order.hpp"

#include <cstddef>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace {

using imbrex::index;
using imbrex::plan;
using imbrex::position;
using imbrex::sequence_side;
using imbrex::work_order;

using starts = std::vector<position>;

// A plan, memory for it, and the order of a call on it.
struct ordered {
    plan p;
    std::vector<std::byte> memory;
    sequence_side q, kv;

    ordered(sequence_side queries, sequence_side keys, index heads, imbrex::kv_layout layout = imbrex::kv_layout::contiguous, index head_dim = 8)
        : q{queries}, kv{keys} {
        EXPECT_TRUE(imbrex::make_plan<imbrex::precision<float>>({.batch = q.sequences(),
                                                                 .q_tokens = q.longest(),
                                                                 .kv_tokens = kv.longest(),
                                                                 .q_heads = 2 * heads,
                                                                 .kv_heads = heads,
                                                                 .head_dim = head_dim,
                                                                 .layout = layout},
                                                                p)
                        .ok());
        memory.resize(imbrex::workspace_bytes(p));
    }
    work_order order(work_order::copying c = work_order::copying::as_planned) {
        auto const address = reinterpret_cast<std::uintptr_t>(memory.data());
        return {p, q, kv, c, imbrex::workspace_layout::of(p, 1, memory.data() + (64 - address % 64) % 64)};
    }
};

sequence_side packed(starts const& s) { return {{1, s.back(), 1, 8}, std::span<position const>{s}}; }

starts from_lengths(std::vector<position> const& lengths) {
    starts s{0};
    for (position const n : lengths) s.push_back(s.back() + n);
    return s;
}

std::vector<index> sequences_in_order(work_order const& order, index heads) {
    std::vector<index> all;
    for (index place = 0; place < order.heads(); place += heads) all.push_back(order.head(place).sequence);
    return all;
}

TEST(WorkOrder, EveryRowTileIsOneItemWithTheLongestOfAHeadFirst) {
    std::mt19937 random{7};
    for (int repetition = 0; repetition < 50; ++repetition) {
        std::vector<position> lengths;
        for (int i = 0; i < 20; ++i) lengths.push_back(static_cast<position>(random() % 3 == 0 ? 0 : random() % 400));
        lengths.push_back(1);
        starts const q = from_lengths(lengths);
        ordered x{packed(q), packed(q), 3};
        work_order const order = x.order();
        ASSERT_EQ(order.heads(), 21 * 3);
        std::set<std::tuple<index, index, index>> seen;
        imbrex::work_item before{};
        for (index i = 0; i < order.first_item(order.heads()); ++i) {
            imbrex::work_item const item = order.item(i);
            auto const& at = item.head;
            ASSERT_LT(item.row_tile, x.p.row_tiles(x.q.of(at.sequence).count));
            ASSERT_GE(item.row_tile, 0);
            ASSERT_TRUE(seen.insert({at.sequence, at.kv_head, item.row_tile}).second);
            imbrex::placed_head const same = order.head(at.place);
            ASSERT_EQ(same.sequence, at.sequence);
            ASSERT_EQ(same.kv_head, at.kv_head);
            ASSERT_LE(order.first_item(at.place), i);
            ASSERT_LT(i, order.first_item(at.place + 1));
            if (i > 0) {
                ASSERT_GE(at.place, before.head.place);
                if (at.place == before.head.place) { ASSERT_EQ(item.row_tile, before.row_tile - 1); }
            }
            before = item;
        }
        index expected = 0;
        for (position const n : lengths) expected += 3 * x.p.row_tiles(n);
        EXPECT_EQ(static_cast<index>(seen.size()), expected);
    }
}

TEST(WorkOrder, SequencesComeFromTheLargestToTheSmallestAndEqualOnesAsTheyStand) {
    starts const q = from_lengths({2, 100, 0, 3, 2, 100}), kv = from_lengths({30, 10, 500, 20, 30, 11});
    ordered x{packed(q), packed(kv), 2};
    EXPECT_EQ(sequences_in_order(x.order(), 2), (std::vector<index>{5, 1, 0, 3, 4, 2}));
}

TEST(WorkOrder, ADenseBatchIsTakenAsItStands) {
    ordered x{sequence_side{{5, 70, 1, 8}, {}}, sequence_side{{1, 90, 1, 8}, {}}, 2};
    EXPECT_EQ(sequences_in_order(x.order(), 2), (std::vector<index>{0, 1, 2, 3, 4}));
    EXPECT_EQ(x.order().first_item(10), 10 * x.p.row_tiles(70));
}

TEST(WorkOrder, SequencesThatCopyTheirKvHeadsComeFirst) {
    position const long_one = 400, short_one = 1;
    starts const q = from_lengths({short_one, long_one, short_one, long_one}), kv = from_lengths({1 << 20, 20, 5, 30});
    ordered x{packed(q), packed(kv), 2, imbrex::kv_layout::strided};
    ASSERT_TRUE(x.p.copies(long_one) && !x.p.copies(short_one));
    EXPECT_EQ(sequences_in_order(x.order(), 2), (std::vector<index>{3, 1, 0, 2}));
    EXPECT_EQ(x.order().copied_heads(), 4);
    EXPECT_EQ(sequences_in_order(x.order(work_order::copying::none), 2), (std::vector<index>{0, 3, 1, 2}));
    EXPECT_EQ(x.order(work_order::copying::none).copied_heads(), 0);
}

// Every head is cut into parts that are items one after another, and has its own run of states.
TEST(WorkOrder, PartsOfAHeadAreItemsInTheirOrderWithStatesSideBySide) {
    constexpr position longest = 20000;
    starts const q = from_lengths({1, 30, 2, 0, 1, 1}), kv = from_lengths({longest, longest, 2049, longest, 100, 0});
    ordered x{packed(q), packed(kv), 3, imbrex::kv_layout::contiguous, 128};
    work_order const order = x.order();
    index states = 0, items = 0;
    for (index place = 0; place < order.heads(); ++place) {
        imbrex::placed_head const head = order.head(place);
        index const queries = x.q.of(head.sequence).count, keys = x.kv.of(head.sequence).count;
        index const parts = queries == 1 && keys == longest ? 10 : queries == 2 ? 2 : 1;
        ASSERT_EQ(x.p.kv_parts(queries, keys), queries > 0 ? parts : 1);
        ASSERT_EQ(order.first_item(place), items);
        ASSERT_EQ(order.first_state(place), states);
        index const of_head = parts > 1 ? parts : x.p.row_tiles(queries);
        for (index i = 0; i < of_head; ++i) {
            imbrex::work_item const item = order.item(items + i);
            EXPECT_EQ(item.head.place, place);
            EXPECT_EQ(item.parts, parts);
            EXPECT_EQ(item.part, parts > 1 ? i : 0);
            EXPECT_EQ(item.row_tile, parts > 1 ? 0 : of_head - 1 - i);
        }
        items += of_head;
        if (parts > 1) states += parts;
    }
    EXPECT_EQ(order.first_item(order.heads()), items);
    EXPECT_EQ(order.first_state(order.heads()), states);
    EXPECT_EQ(states, 3 * (10 + 2));
}

// Heads that lie side by side: every part of every head is in one item, of as many heads as leave each worker several items.
TEST(WorkOrder, HeadsThatLieApartAreReadTogetherWhileAllWorkersHaveItems) {
    auto const evenly = [](index most) { return (20 + (20 + most - 1) / most - 1) / ((20 + most - 1) / most); };    // of 20 heads
    starts const q = from_lengths({1, 30, 1}), kv = from_lengths({20000, 30, 100});
    ordered x{packed(q), packed(kv), 20, imbrex::kv_layout::strided, 128};
    index const most_together = x.p.heads_together;    // of whose scratch there is no more
    ASSERT_GE(most_together, 6);
    struct {
        index workers, together;
    } const cases[] = {{1, evenly(most_together)}, {8, evenly(220 / 32)}, {64, evenly(1)}};    // 220 parts of heads, 4 a worker
    for (auto const& c : cases) {
        x.memory.resize(imbrex::workspace_bytes(x.p, c.workers));
        auto const moved = reinterpret_cast<std::uintptr_t>(x.memory.data());
        auto const memory = imbrex::workspace_layout::of(x.p, c.workers, x.memory.data() + (64 - moved % 64) % 64);
        work_order const order{x.p, x.q, x.kv, work_order::copying::none, memory, work_order::kv_rows::apart};
        std::set<std::tuple<index, index, index, index>> seen;
        index most = 0, before = 0;
        for (index i = 0; i < order.first_item(order.heads()); ++i) {
            imbrex::work_item const item = order.item(i);
            if (item.head.sequence == 1) { ASSERT_EQ(item.heads, 1); }    // the wide unit's
            for (index h = 0; h < item.heads; ++h) {
                ASSERT_EQ(order.head(item.head.place + h).sequence, item.head.sequence);
                ASSERT_TRUE(seen.insert({item.head.sequence, item.head.kv_head + h, item.row_tile, item.part}).second);
            }
            most = std::max(most, item.heads);
            ASSERT_GE(item.head.place, before);
            before = item.head.place;
        }
        EXPECT_EQ(most, c.together);
        EXPECT_EQ(std::ssize(seen), 20 * (10 + 1) + 20 * x.p.row_tiles(30));
        // Waves end between heads that are read together.
        for (index first = 0; first < order.heads();) {
            index const end = order.end_of_wave(first, order.heads(), memory.state_count);
            ASSERT_GT(end, first);
            ASSERT_LE(order.first_state(end) - order.first_state(first), memory.state_count);
            if (end < order.heads()) { ASSERT_EQ(order.item(order.first_item(end)).head.place, end); }
            first = end;
        }
    }
}

TEST(WorkOrder, WhereWorkersDecideTheyAllGetParts) {
    starts const q = from_lengths({1, 1, 30}), kv = from_lengths({4000, 1000, 30});
    ordered x{packed(q), packed(kv), 2, imbrex::kv_layout::contiguous, 128};
    ASSERT_TRUE(imbrex::make_plan<imbrex::precision<float>>({.batch = 3, .q_tokens = 30, .kv_tokens = 4000, .q_heads = 4, .kv_heads = 2, .head_dim = 128, .split = imbrex::split_policy::by_workers}, x.p).ok());
    x.memory.resize(imbrex::workspace_bytes(x.p));
    work_order const order = x.order();
    EXPECT_EQ(order.share(), 10000 / imbrex::tune::shares_per_worker + 1);
    EXPECT_EQ(order.first_state(order.heads()), 0);    // one worker: nothing to share
    x.memory.resize(imbrex::workspace_bytes(x.p, 8));
    auto const moved = reinterpret_cast<std::uintptr_t>(x.memory.data());
    work_order const of_eight{x.p, x.q, x.kv, work_order::copying::as_planned, imbrex::workspace_layout::of(x.p, 8, x.memory.data() + (64 - moved % 64) % 64)};
    EXPECT_EQ(of_eight.first_state(of_eight.heads()), 2 * 6 + 2 * 2);    // parts of 768 and 512 keys
    EXPECT_EQ(of_eight.item(0).parts, 6);
}

TEST(WorkOrder, AWaveEndsWhereTheStatesOfItsHeadsDo) {
    starts const q = from_lengths({1, 1, 1}), kv = from_lengths({10000, 100, 5000});    // 5, 1 and 3 parts
    ordered x{packed(q), packed(kv), 2, imbrex::kv_layout::contiguous, 128};
    work_order const order = x.order();
    EXPECT_EQ(sequences_in_order(order, 2), (std::vector<index>{0, 2, 1}));
    EXPECT_EQ(order.end_of_wave(0, 6, 16), 6);
    EXPECT_EQ(order.end_of_wave(0, 6, 15), 3);
    EXPECT_EQ(order.end_of_wave(0, 6, 5), 1);
    EXPECT_EQ(order.end_of_wave(1, 6, 7), 2);
    EXPECT_EQ(order.end_of_wave(2, 6, 5), 3);
    EXPECT_EQ(order.end_of_wave(3, 6, 5), 6);
}

}    // namespace
