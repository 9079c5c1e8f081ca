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

    ordered(sequence_side queries, sequence_side keys, index heads, imbrex::kv_layout layout = imbrex::kv_layout::contiguous)
        : q{queries}, kv{keys} {
        EXPECT_TRUE(imbrex::make_plan<imbrex::precision<float>>({.batch = q.sequences(),
                                                                 .q_tokens = q.longest(),
                                                                 .kv_tokens = kv.longest(),
                                                                 .q_heads = 2 * heads,
                                                                 .kv_heads = heads,
                                                                 .head_dim = 8,
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

}    // namespace
