// checks.hpp: what is refused before anything is read, from shapes, strides and addresses alone. Memory that tensors share is in
// checks_overlap_test.cpp, and the sentences that a call gives in attention_errors_test.cpp.
#include "imbrex/checks.hpp"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "checks_call.hpp"

namespace imbrex_test {
namespace {

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
    tensor_facts const t = tensor_facts::of(imbrex::strided<double const>(data, {1, 2, 3, 4}, {5, 6, 7, 1}));
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
        for (index const anything :
             {index{0}, index{-1}, index{1} << 62, std::numeric_limits<index>::min(), std::numeric_limits<index>::max()}) {
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
                EXPECT_FALSE(c.check().ok())
                    << "stride " << stride << " of axis " << axis << " of " << imbrex::role_name(static_cast<int>(role));
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
}    // namespace imbrex_test
