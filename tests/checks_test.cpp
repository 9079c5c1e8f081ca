// checks.hpp: what is refused before anything is read, from shapes, strides and addresses alone. Which sentence a call then
// gives is in attention_errors_test.cpp.
#include "imbrex/checks.hpp"

#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace {

using imbrex::bhs;
using imbrex::bhsd;
using imbrex::bshd;
using imbrex::errc;
using imbrex::index;
using imbrex::shape4;
using imbrex::status;
using imbrex::strided;
using imbrex::strides4;
using imbrex::tensor_facts;
using imbrex::tensor_role;
using imbrex::tensor_view;

// The tensors of one call. Nothing is ever read through them.
struct call {
    tensor_facts q, k, v, out, lse{};

    status check() const { return imbrex::check_call(q, k, v, out, lse); }
    tensor_facts& of(tensor_role role) {
        tensor_facts* const all[] = {&q, &k, &v, &out, &lse};
        return *all[static_cast<int>(role)];
    }
};

constexpr tensor_role all_roles[] = {tensor_role::query, tensor_role::key, tensor_role::value, tensor_role::output, tensor_role::lse};
constexpr tensor_role inputs[] = {tensor_role::query, tensor_role::key, tensor_role::value};

float memory[1 << 16];

// A right call: batch 2, 3 queries on 5 keys, 4 heads on 2, head_dim 8 and 6.
call right_call() {
    shape4 const q{2, 3, 4, 8};
    return {tensor_facts::of(bshd(memory, q)), tensor_facts::of(bhsd(memory + 1024, {2, 5, 2, 8})),
            tensor_facts::of(bhsd(memory + 2048, {2, 5, 2, 6})), tensor_facts::of(bshd(memory + 4096, {2, 3, 4, 6})),
            tensor_facts::of(bhs(memory + 8192, q), q)};
}

index* stride_of(tensor_facts& t, int axis) {
    index* const strides[] = {&t.strides.batch, &t.strides.token, &t.strides.head};
    return strides[axis];
}

TEST(Checks, ARightCallPassesWithAndWithoutLse) {
    call c = right_call();
    EXPECT_TRUE(c.check().ok());
    c.lse = {};
    EXPECT_TRUE(c.check().ok());
}

TEST(Checks, FactsAreThoseOfTheView) {
    double* const data = reinterpret_cast<double*>(memory);
    tensor_facts const t = tensor_facts::of(strided<double const>(data, {1, 2, 3, 4}, {5, 6, 7, 1}));
    EXPECT_EQ(t.address, reinterpret_cast<std::uintptr_t>(memory));
    EXPECT_EQ(t.element_bytes, 8);
    EXPECT_EQ(t.alignment, static_cast<index>(alignof(double)));
    EXPECT_EQ(t.shape, (shape4{1, 2, 3, 4}));
    EXPECT_EQ(t.strides, (strides4{5, 6, 7, 1}));
}

TEST(Checks, OneKvForAWholeBatchIsFineAndAnotherCountIsNot) {
    call c = right_call();
    c.k.shape.batch = 1;
    EXPECT_TRUE(c.check().ok());
    c.v.shape.batch = 1;
    EXPECT_TRUE(c.check().ok());
    c.k.shape.batch = 3;
    EXPECT_EQ(c.check().code(), errc::batch_mismatch);
}

TEST(Checks, EmptyTensorsNeedNoMemory) {
    call no_keys = right_call();
    no_keys.k.shape.tokens = no_keys.v.shape.tokens = 0;
    no_keys.k.address = no_keys.v.address = 0;
    EXPECT_TRUE(no_keys.check().ok());
    for (index shape4::*axis : {&shape4::batch, &shape4::tokens, &shape4::heads}) {
        call c = right_call();
        c.q.shape.*axis = c.out.shape.*axis = c.lse.shape.*axis = 0;
        if (axis == &shape4::batch) c.k.shape.batch = c.v.shape.batch = 0;
        c.q.address = c.out.address = 0;
        EXPECT_TRUE(c.check().ok()) << c.check().message().c_str();
    }
}

TEST(Checks, StridesOfAxesOfSizeOneAreIgnored) {
    for (int axis = 0; axis < 3; ++axis) {
        for (index const anything : {index{0}, index{-1}, index{1} << 62, std::numeric_limits<index>::min(), std::numeric_limits<index>::max()}) {
            call c = right_call();
            for (tensor_role const role : all_roles) {
                tensor_facts& t = c.of(role);
                index* const sizes[] = {&t.shape.batch, &t.shape.tokens, &t.shape.heads};
                *sizes[axis] = 1;
                *stride_of(t, axis) = anything;
            }
            EXPECT_TRUE(c.check().ok()) << "axis " << axis << ", stride " << anything << ": " << c.check().message().c_str();
        }
    }
    call c = right_call();
    c.q.shape.head_dim = c.k.shape.head_dim = c.v.shape.head_dim = c.out.shape.head_dim = 1;
    for (tensor_role const role : all_roles) c.of(role).strides.dim = 77;
    EXPECT_TRUE(c.check().ok()) << c.check().message().c_str();
}

TEST(Checks, InputsMayBeExpandedAndReversedAndOverlapEachOther) {
    call c = right_call();
    for (tensor_role const role : inputs) {
        for (int axis = 0; axis < 3; ++axis) {
            call expanded = c;
            *stride_of(expanded.of(role), axis) = 0;
            EXPECT_TRUE(expanded.check().ok()) << expanded.check().message().c_str();
        }
    }
    c.k.address = c.v.address = c.q.address;
    EXPECT_TRUE(c.check().ok());
    call reversed = right_call();
    for (tensor_role const role : inputs) {
        tensor_facts& t = reversed.of(role);
        t.address += static_cast<std::uintptr_t>((t.shape.tokens - 1) * t.strides.token * 4);
        t.strides.token = -t.strides.token;
    }
    EXPECT_TRUE(reversed.check().ok()) << reversed.check().message().c_str();
}

TEST(Checks, OutputsMayBeReversed) {
    for (int axis = 0; axis < 3; ++axis) {
        for (tensor_role const role : {tensor_role::output, tensor_role::lse}) {
            call c = right_call();
            tensor_facts& t = c.of(role);
            index const sizes[] = {t.shape.batch, t.shape.tokens, t.shape.heads};
            index& stride = *stride_of(t, axis);
            t.address += static_cast<std::uintptr_t>((sizes[axis] - 1) * stride * 4);
            stride = -stride;
            EXPECT_TRUE(c.check().ok()) << "axis " << axis << ": " << c.check().message().c_str();
        }
    }
}

TEST(Checks, OutputsMayNotBeExpanded) {
    for (int axis = 0; axis < 3; ++axis) {
        for (tensor_role const role : {tensor_role::output, tensor_role::lse}) {
            call c = right_call();
            *stride_of(c.of(role), axis) = 0;
            status const s = c.check();
            EXPECT_EQ(s.code(), errc::output_self_overlap) << "axis " << axis;
            EXPECT_EQ(s.value(0), static_cast<std::int64_t>(role));
        }
    }
}

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

// Over thousands of small layouts, negative strides and different element sizes included: memory that is really shared is always found.
TEST(Checks, SharedMemoryIsNeverMissed) {
    index const strides[] = {-12, -6, -3, 0, 1, 2, 3, 4, 6, 8, 12};
    std::uintptr_t const base = 1 << 20;
    int found = 0, cautious = 0, apart = 0;
    for (index const token_a : strides)
        for (index const head_a : strides)
            for (index const token_b : strides)
                for (index const head_b : {index{-3}, index{0}, index{2}, index{3}, index{6}})
                    for (index offset = -14; offset <= 14; offset += 2) {
                        tensor_facts const a{base, 4, 4, {1, 3, 2, 2}, {0, token_a, head_a, 1}};
                        tensor_facts const b{base + static_cast<std::uintptr_t>(4 * offset), 4, 4, {1, 2, 2, 3}, {0, token_b, head_b, 1}};
                        bool const said = imbrex::detail::share_memory(a, b), shared = really_share(a, b);
                        ASSERT_EQ(said, imbrex::detail::share_memory(b, a)) << "the order of the two matters";
                        ASSERT_TRUE(said || !shared) << "a " << token_a << ", " << head_a << "; b " << token_b << ", " << head_b << "; offset " << offset;
                        found += said && shared ? 1 : 0;
                        cautious += said && !shared ? 1 : 0;
                        apart += said ? 0 : 1;
                    }
    EXPECT_GT(found, 0);
    EXPECT_GT(apart, 0);
    RecordProperty("cautious", cautious);
}

TEST(Checks, SharedMemoryIsNeverMissedWithBatchesOfOtherStrides) {
    std::uintptr_t const base = 1 << 20;
    for (index const batch_a : {index{0}, index{4}, index{7}, index{24}, index{25}, index{-24}})
        for (index const batch_b : {index{0}, index{4}, index{8}, index{24}, index{26}, index{-8}})
            for (index const token : {index{4}, index{8}, index{12}})
                for (index const bytes : {index{2}, index{4}})
                    for (index offset = -40; offset <= 40; ++offset) {
                        tensor_facts const a{base, 4, 4, {2, 3, 1, 3}, {batch_a, token, 0, 1}};
                        tensor_facts const b{base + static_cast<std::uintptr_t>(2 * offset), bytes, bytes, {3, 2, 1, 2}, {batch_b, token * 4 / bytes, 0, 1}};
                        ASSERT_TRUE(imbrex::detail::share_memory(a, b) || !really_share(a, b))
                            << "batch " << batch_a << ", " << batch_b << "; token " << token << "; bytes " << bytes << "; offset " << offset;
                    }
}

TEST(Checks, ResultsThatShareAnAddressAreNeverMissed) {
    for (index batch = -30; batch <= 30; ++batch)
        for (index token = -13; token <= 13; ++token)
            for (index head = -7; head <= 7; ++head) {
                tensor_facts const t{1 << 20, 2, 2, {2, 3, 2, 2}, {batch, token, head, 1}};
                bool const said = !imbrex::detail::check_distinct(t, tensor_role::output).ok();
                ASSERT_TRUE(said || really_distinct(t)) << batch << ", " << token << ", " << head;
            }
}

// The layouts that people use: any order of the axes, with or without gaps between rows.
TEST(Checks, NestedOutputsAreAccepted) {
    for (index const gap : {0, 1, 9}) {
        index const d = 5 + gap;
        strides4 const layouts[] = {{12 * d, 4 * d, d, 1}, {12 * d, d, 3 * d, 1}, {d, 2 * d, 6 * d, 1}, {d, 8 * d, 2 * d, 1}};
        for (strides4 const& s : layouts) {
            tensor_facts const t{1 << 20, 4, 4, {2, 3, 4, 5}, s};
            ASSERT_TRUE(really_distinct(t));
            EXPECT_TRUE(imbrex::detail::check_distinct(t, tensor_role::output).ok()) << s.batch << ", " << s.token << ", " << s.head;
        }
    }
}

// Slices of one packed buffer of rows (q k v out), as a fused projection leaves them.
struct packed {
    index batch, tokens, heads, kv_heads, dim;

    index row() const { return (2 * heads + 2 * kv_heads) * dim; }
    tensor_facts slice(index first, index slice_heads) const {
        return tensor_facts::of(strided(memory + first * dim, shape4{batch, tokens, slice_heads, dim}, strides4{tokens * row(), row(), dim, 1}));
    }
    call slices() const {
        return {slice(0, heads), slice(heads, kv_heads), slice(heads + kv_heads, kv_heads), slice(heads + 2 * kv_heads, heads)};
    }
};

TEST(Checks, SlicesOfOnePackedBufferAreAccepted) {
    for (packed const& p : {packed{2, 5, 4, 2, 8}, packed{1, 5, 4, 4, 8}, packed{3, 2, 1, 1, 3}, packed{1, 1, 4, 2, 8}, packed{4, 1, 4, 2, 8}}) {
        call const c = p.slices();
        EXPECT_TRUE(c.check().ok()) << p.batch << " x " << p.tokens << " x " << p.heads << ": " << c.check().message().c_str();
    }
}

TEST(Checks, SlicesOfOnePackedBufferAreAcceptedWhateverTheStridesOfTheirAxesOfSizeOne) {
    for (index const anything : {index{0}, index{-1}, index{5}, index{1} << 62, std::numeric_limits<index>::min()}) {
        call one_head = packed{2, 5, 1, 1, 8}.slices(), one_token = packed{4, 1, 4, 2, 8}.slices(), one_sequence = packed{1, 5, 4, 2, 8}.slices();
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

TEST(Checks, SlicesThatReachIntoTheirNeighbourAreRefused) {
    packed const p{2, 5, 4, 2, 8};
    for (index const shift : {-1, 1, 7, 8, 33}) {
        call c = p.slices();
        c.out.address += static_cast<std::uintptr_t>(4 * shift);
        bool const shared = really_share(c.out, c.q) || really_share(c.out, c.k) || really_share(c.out, c.v);
        ASSERT_TRUE(shared) << shift;
        EXPECT_EQ(c.check().code(), errc::output_overlaps_input) << shift;
    }
}

TEST(Checks, AnOutputOnAnInputIsRefusedAndNamesIt) {
    for (tensor_role const role : inputs) {
        call c = right_call();
        c.out.address = c.of(role).address;
        status const s = c.check();
        EXPECT_EQ(s.code(), errc::output_overlaps_input);
        EXPECT_EQ(s.value(0), static_cast<std::int64_t>(role));
    }
}

TEST(Checks, LseOnAnyOtherTensorIsRefusedAndNamesIt) {
    for (tensor_role const role : {tensor_role::query, tensor_role::key, tensor_role::value, tensor_role::output}) {
        call c = right_call();
        c.lse.address = c.of(role).address;
        status const s = c.check();
        EXPECT_EQ(s.code(), errc::lse_overlap);
        EXPECT_EQ(s.value(0), static_cast<std::int64_t>(role));
    }
}

TEST(Checks, TouchingButNotSharingIsFine) {
    call c = right_call();
    index const q_bytes = c.q.shape.elements() * 4;
    c.out.address = c.q.address + static_cast<std::uintptr_t>(q_bytes);
    EXPECT_TRUE(c.check().ok());
    c.out.address -= 4;
    EXPECT_EQ(c.check().code(), errc::output_overlaps_input);
}

TEST(Checks, MisalignedPointersAreRefusedForEachTensor) {
    for (tensor_role const role : all_roles) {
        for (std::uintptr_t off = 1; off < 4; ++off) {
            call c = right_call();
            c.of(role).address += off;
            status const s = c.check();
            EXPECT_EQ(s.code(), errc::misaligned);
            EXPECT_EQ(s.value(0), static_cast<std::int64_t>(role));
            EXPECT_EQ(s.value(1), 4);
        }
    }
}

// Run under -fsanitize=undefined, this also shows that no sum or product on the way overflows.
TEST(Checks, SizesAndStridesThatNoMemoryHoldsAreRefused) {
    index const huge[] = {index{1} << 62, (index{1} << 60) + 1, std::numeric_limits<index>::max()};
    for (index const size : huge) {
        for (int axis = 0; axis < 3; ++axis) {
            call c = right_call();
            for (tensor_role const role : all_roles) {    // alike in all, so that no mismatch is found first
                tensor_facts& t = c.of(role);
                index* const sizes[] = {&t.shape.batch, &t.shape.tokens, &t.shape.heads};
                *sizes[axis] = size;
            }
            EXPECT_FALSE(c.check().ok()) << "size " << size << " of axis " << axis;
        }
    }
    for (tensor_role const role : all_roles) {
        for (int axis = 0; axis < 3; ++axis) {
            for (index const stride : {huge[0], huge[1], huge[2], -huge[0], -huge[1], std::numeric_limits<index>::min()}) {
                call c = right_call();
                *stride_of(c.of(role), axis) = stride;
                EXPECT_FALSE(c.check().ok()) << "stride " << stride << " of axis " << axis << " of " << imbrex::role_name(static_cast<int>(role));
            }
        }
    }
}

TEST(Checks, StridesOf32BitsAndMoreAreFine) {
    for (tensor_role const role : all_roles) {
        for (index const stride : {index{1} << 30, index{1} << 32, index{1} << 40}) {
            call c = right_call();
            c.of(role).address = std::uintptr_t{1} << 46;    // far from the others
            c.of(role).strides.batch = stride;
            EXPECT_TRUE(c.check().ok()) << stride << ": " << c.check().message().c_str();
        }
    }
}

}    // namespace
