// checks.hpp: which tensors share memory, held to the set of all their addresses.
#include "imbrex/checks.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "checks_call.hpp"

namespace imbrex_test {
namespace {

// Every element's address, to tell what the checks should find.
template <class F>
void for_each_address(tensor_facts const& t, F f) {
    for (index b = 0; b < t.shape.batch; ++b)
        for (index s = 0; s < t.shape.tokens; ++s)
            for (index h = 0; h < t.shape.heads; ++h)
                for (index d = 0; d < t.shape.head_dim; ++d) {
                    index const offset = b * t.strides.batch + s * t.strides.token + h * t.strides.head + d;
                    for (index byte = 0; byte < t.element_bytes; ++byte) {
                        f(t.address + static_cast<std::uintptr_t>(offset * t.element_bytes + byte));
                    }
                }
}

bool really_share(tensor_facts const& a, tensor_facts const& b) {
    std::set<std::uintptr_t> bytes;
    for_each_address(a, [&](std::uintptr_t p) { bytes.insert(p); });
    bool shared = false;
    for_each_address(b, [&](std::uintptr_t p) { shared = shared || bytes.contains(p); });
    return shared;
}

bool really_distinct(tensor_facts const& t) {
    std::set<std::uintptr_t> bytes;
    bool distinct = true;
    for_each_address(t, [&](std::uintptr_t p) { distinct = distinct && bytes.insert(p).second; });
    return distinct;
}

// Rows that meet are told exactly, whether or not strides nest, and of elements of unlike sizes.
TEST(ChecksOverlap, RowsMeetWhereAnElementIsShared) {
    std::mt19937 random{20261201};
    auto const among = [&](index low, index high) { return std::uniform_int_distribution<index>{low, high}(random); };
    int met = 0;
    for (int round = 0; round < 20000; ++round) {
        auto const any = [&](std::uintptr_t address, index bytes) {
            return tensor_facts{address, bytes, bytes, {among(1, 3), among(1, 3), among(1, 2), among(1, 3)},
                                {among(-20, 40), among(-9, 20), among(0, 9), 1}};
        };
        std::uintptr_t const base = 1 << 20;
        tensor_facts const a = any(base, among(1, 2) * 2), b = any(base + static_cast<std::uintptr_t>(2 * among(-60, 60)), 2);
        bool const shared = really_share(a, b);
        ASSERT_EQ(imbrex::detail::rows_meet(a, b), shared) << "round " << round;
        ASSERT_EQ(imbrex::detail::rows_meet(b, a), shared) << "round " << round;
        met += shared;
    }
    EXPECT_GT(met, 5000);
    EXPECT_LT(met, 15000);
}

// Over thousands of small layouts, negative strides and different element sizes included: memory that is really shared is always
// found.
TEST(ChecksOverlap, SharedMemoryIsNeverMissed) {
    index const strides[] = {-12, -6, -3, 0, 1, 2, 3, 4, 6, 8, 12};
    std::uintptr_t const base = 1 << 20;
    int found = 0, cautious = 0, apart = 0;
    for (index const token_a : strides)
        for (index const head_a : strides)
            for (index const token_b : strides)
                for (index const head_b : {index{-3}, index{0}, index{2}, index{3}, index{6}})
                    for (index offset = -14; offset <= 14; offset += 2) {
                        tensor_facts const a{base, 4, 4, {1, 3, 2, 2}, {0, token_a, head_a, 1}};
                        tensor_facts const b{
                            base + static_cast<std::uintptr_t>(4 * offset), 4, 4, {1, 2, 2, 3}, {0, token_b, head_b, 1}};
                        bool const said = imbrex::detail::share_memory(a, b), shared = really_share(a, b);
                        ASSERT_EQ(said, imbrex::detail::share_memory(b, a)) << "the order of the two matters";
                        ASSERT_TRUE(said || !shared)
                            << "a " << token_a << ", " << head_a << "; b " << token_b << ", " << head_b << "; offset " << offset;
                        found += said && shared ? 1 : 0;
                        cautious += said && !shared ? 1 : 0;
                        apart += said ? 0 : 1;
                    }
    EXPECT_GT(found, 0);
    EXPECT_GT(apart, 0);
    RecordProperty("cautious", cautious);
}

TEST(ChecksOverlap, SharedMemoryIsNeverMissedWithBatchesOfOtherStrides) {
    std::uintptr_t const base = 1 << 20;
    for (index const batch_a : {index{0}, index{4}, index{7}, index{24}, index{25}, index{-24}})
        for (index const batch_b : {index{0}, index{4}, index{8}, index{24}, index{26}, index{-8}})
            for (index const token : {index{4}, index{8}, index{12}})
                for (index const bytes : {index{2}, index{4}})
                    for (index offset = -40; offset <= 40; ++offset) {
                        tensor_facts const a{base, 4, 4, {2, 3, 1, 3}, {batch_a, token, 0, 1}};
                        tensor_facts const b{base + static_cast<std::uintptr_t>(2 * offset),
                                             bytes,
                                             bytes,
                                             {3, 2, 1, 2},
                                             {batch_b, token * 4 / bytes, 0, 1}};
                        ASSERT_TRUE(imbrex::detail::share_memory(a, b) || !really_share(a, b))
                            << "batch " << batch_a << ", " << batch_b << "; token " << token << "; bytes " << bytes << "; offset "
                            << offset;
                    }
}

TEST(ChecksOverlap, ResultsThatShareAnAddressAreNeverMissed) {
    for (index batch = -30; batch <= 30; ++batch)
        for (index token = -13; token <= 13; ++token)
            for (index head = -7; head <= 7; ++head) {
                tensor_facts const t{1 << 20, 2, 2, {2, 3, 2, 2}, {batch, token, head, 1}};
                bool const said = !imbrex::detail::check_distinct(t, tensor_role::output).ok();
                ASSERT_TRUE(said || really_distinct(t)) << batch << ", " << token << ", " << head;
            }
}

// The layouts that people use: any order of the axes, with or without gaps between rows.
TEST(ChecksOverlap, NestedOutputsAreAccepted) {
    for (index const gap : {0, 1, 9}) {
        index const d = 5 + gap;
        strides4 const layouts[] = {{12 * d, 4 * d, d, 1}, {12 * d, d, 3 * d, 1}, {d, 2 * d, 6 * d, 1}, {d, 8 * d, 2 * d, 1}};
        for (strides4 const& s : layouts) {
            tensor_facts const t{1 << 20, 4, 4, {2, 3, 4, 5}, s};
            ASSERT_TRUE(really_distinct(t));
            EXPECT_TRUE(imbrex::detail::check_distinct(t, tensor_role::output).ok())
                << s.batch << ", " << s.token << ", " << s.head;
        }
    }
}

// Slices of one packed buffer of rows (q k v out), as a fused projection leaves them.
struct packed {
    index batch, tokens, heads, kv_heads, dim;

    index row() const { return (2 * heads + 2 * kv_heads) * dim; }
    tensor_facts slice(index first, index slice_heads) const {
        return tensor_facts::of(imbrex::strided(memory + first * dim, shape4{batch, tokens, slice_heads, dim},
                                                strides4{tokens * row(), row(), dim, 1}));
    }
    call slices() const {
        return {slice(0, heads), slice(heads, kv_heads), slice(heads + kv_heads, kv_heads), slice(heads + 2 * kv_heads, heads)};
    }
};

TEST(ChecksOverlap, SlicesOfOnePackedBufferAreAccepted) {
    for (packed const& p :
         {packed{2, 5, 4, 2, 8}, packed{1, 5, 4, 4, 8}, packed{3, 2, 1, 1, 3}, packed{1, 1, 4, 2, 8}, packed{4, 1, 4, 2, 8}}) {
        call const c = p.slices();
        EXPECT_TRUE(c.check().ok()) << p.batch << " x " << p.tokens << " x " << p.heads << ": " << c.check().message().c_str();
    }
}

TEST(ChecksOverlap, SlicesOfOnePackedBufferAreAcceptedWhateverTheStridesOfTheirAxesOfSizeOne) {
    for (index const anything : {index{0}, index{-1}, index{5}, index{1} << 62, std::numeric_limits<index>::min()}) {
        call one_head = packed{2, 5, 1, 1, 8}.slices(), one_token = packed{4, 1, 4, 2, 8}.slices(),
             one_sequence = packed{1, 5, 4, 2, 8}.slices();
        for (tensor_role const role : {tensor_role::query, tensor_role::key, tensor_role::value, tensor_role::output}) {
            one_head.of(role).strides.head = anything;
            one_token.of(role).strides.token = anything;
            one_sequence.of(role).strides.batch = anything;
        }
        EXPECT_TRUE(one_head.check().ok()) << "head stride " << anything << ": " << one_head.check().message().c_str();
        EXPECT_TRUE(one_token.check().ok()) << "token stride " << anything << ": " << one_token.check().message().c_str();
        EXPECT_TRUE(one_sequence.check().ok()) << "batch stride " << anything << ": " << one_sequence.check().message().c_str();
    }
}

TEST(ChecksOverlap, SlicesThatReachIntoTheirNeighbourAreRefused) {
    packed const p{2, 5, 4, 2, 8};
    for (index const shift : {-1, 1, 7, 8, 33}) {
        call c = p.slices();
        c.out.address += static_cast<std::uintptr_t>(4 * shift);
        bool const shared = really_share(c.out, c.q) || really_share(c.out, c.k) || really_share(c.out, c.v);
        ASSERT_TRUE(shared) << shift;
        EXPECT_EQ(c.check().code(), errc::output_overlaps_input) << shift;
    }
}

TEST(ChecksOverlap, AnOutputOnAnInputIsRefusedAndNamesIt) {
    for (tensor_role const role : inputs) {
        call c = right_call();
        c.out.address = c.of(role).address;
        status const s = c.check();
        EXPECT_EQ(s.code(), errc::output_overlaps_input);
        EXPECT_EQ(s.value(0), static_cast<std::int64_t>(role));
    }
}

TEST(ChecksOverlap, LseOnAnyOtherTensorIsRefusedAndNamesIt) {
    for (tensor_role const role : {tensor_role::query, tensor_role::key, tensor_role::value, tensor_role::output}) {
        call c = right_call();
        c.lse.address = c.of(role).address;
        status const s = c.check();
        EXPECT_EQ(s.code(), errc::lse_overlap);
        EXPECT_EQ(s.value(0), static_cast<std::int64_t>(role));
    }
}

TEST(ChecksOverlap, TouchingButNotSharingIsFine) {
    call c = right_call();
    index const q_bytes = c.q.shape.elements() * 4;
    c.out.address = c.q.address + static_cast<std::uintptr_t>(q_bytes);
    EXPECT_TRUE(c.check().ok());
    c.out.address -= 4;
    EXPECT_EQ(c.check().code(), errc::output_overlaps_input);
}

}    // namespace
}    // namespace imbrex_test
