// kv_split.hpp: how many parts, how long, and how many states a call has room for.
#include "imbrex/kv_split.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace {

using imbrex::index;
using imbrex::kv_split;

constexpr kv_split some{.least_keys = 2048, .kv_cols = 1024, .rows = 4, .state_bytes = 2304};
constexpr index most = imbrex::tune::most_parts;

TEST(KvSplit, NothingIsSplitUnlessPlanned) {
    static_assert(kv_split{}.parts(index{1} << 40) == 1 && kv_split{}.states(100, 1 << 20, 16) == 0);
}

TEST(KvSplit, LeastKeysAreWholeTilesOfAtLeastSoManyBytes) {
    constexpr index bytes = imbrex::tune::part_bytes;
    static_assert(kv_split::least_keys_of(bytes / 2048, 1024) == 2048 && kv_split::least_keys_of(bytes / 2048 + 1, 1024) == 2048);
    static_assert(kv_split::least_keys_of(bytes / 2048 - 1, 1024) == 3072);
    static_assert(kv_split::least_keys_of(2 * bytes, 16) == 16 && kv_split::least_keys_of(1, 48) % 48 == 0);
}

TEST(KvSplit, PartsCoverTheKeysInWholeTilesAndTheirNumberIsBounded) {
    for (index kv = 0; kv < 3 * most * 2048; kv += kv < 5000 ? 1 : 997) {
        index const parts = some.parts(kv), keys = some.keys_of_part(kv);
        ASSERT_GE(keys, some.least_keys);
        ASSERT_EQ(keys % some.kv_cols, 0);
        ASSERT_LE(parts, most);
        ASSERT_EQ(parts > 1, kv > some.least_keys);
        if (parts > 1) {
            ASSERT_GE(parts * keys, kv);
            ASSERT_LT((parts - 1) * keys, kv) << "an empty part of " << kv;
        }
    }
    static_assert(some.parts(imbrex::max_length) <= most);
}

TEST(KvSplit, WhereWorkersDecidePartsAreOfTheirShareAndEqual) {
    constexpr kv_split shared{.least_keys = 256, .kv_cols = 256, .rows = 4, .state_bytes = 2304};
    static_assert(shared.parts(256, 1) == 1 && shared.parts(257, 1) == 2 && shared.parts(16384, 1) == 64);
    static_assert(shared.parts(10000, 20000) == 1 && shared.parts(10000, 5001) == 2 && shared.keys_of_part(10000, 4999) == 3584);
    for (index kv = 1; kv < 40000; kv += 37) {
        for (index const share : {1, 300, 5000, 100000}) {
            index const parts = shared.parts(kv, share), keys = shared.keys_of_part(kv, share);
            ASSERT_LE(parts, most);
            ASSERT_LE(parts, shared.states(1, kv, 1) + 1);
            if (parts > 1) { ASSERT_TRUE(parts * keys >= kv && (parts - 1) * keys < kv && parts <= shared.states(1, kv, 1)) << kv; }
        }
    }
}

// Any head that a call within the capacities has finds room, and more heads and workers need no less.
TEST(KvSplit, StatesHoldAHeadOfAnyLengthAndAllHeadsOfFew) {
    for (index const capacity : {index{1}, index{2048}, index{2049}, index{100000}, index{200000}, imbrex::max_length}) {
        for (index kv = 1; kv <= std::min<index>(capacity, 300000); kv += 1021) {
            if (some.parts(kv) > 1) { ASSERT_LE(some.parts(kv), some.states(1, capacity, 1)) << kv << " of " << capacity; }
            if (some.parts(kv) > 1) { ASSERT_LE(3 * some.parts(kv), some.states(3, capacity, 16)) << kv << " of " << capacity; }
        }
        index before = 0;
        for (index const workers : {1, 2, 3, 16, 64, 65536}) {
            index const states = some.states(1000, capacity, workers);
            EXPECT_GE(states, before);
            EXPECT_LE(states, std::max(most, imbrex::tune::parts_per_worker * workers));
            before = states;
        }
    }
}

TEST(KvSplit, CountsOfHugeCallsDoNotOverflow) {
    EXPECT_EQ(some.states(index{1} << 62, imbrex::max_length, imbrex::max_workers), imbrex::tune::parts_per_worker * imbrex::max_workers);
    EXPECT_EQ(some.states(0, imbrex::max_length, imbrex::max_workers), 0);
}

}    // namespace
