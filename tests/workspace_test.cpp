// workspace.hpp: what a call takes its scratch from, how it is cut up, and that any span of the right size will do.
#include "imbrex/workspace.hpp"

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "guard.hpp"
#include "imbrex/imbrex.hpp"

namespace {

using imbrex::allocate;
using imbrex::arena;
using imbrex::call_memory;
using imbrex::index;
using imbrex::workspace_ref;

TEST(WorkspaceRef, DefaultIsNothing) {
    constexpr workspace_ref none;
    static_assert(none.data() == nullptr && none.size() == 0 && !none.may_allocate());
}

TEST(WorkspaceRef, TakesSpansAndContainersOfBytesAndNothingElse) {
    std::array<std::byte, 24> array{};
    std::vector<std::byte> vector(100);
    workspace_ref const of_array = array, of_vector = vector, of_span = std::span<std::byte>{vector}.subspan(3, 7);
    EXPECT_EQ(of_array.data(), array.data());
    EXPECT_EQ(of_array.size(), 24u);
    EXPECT_EQ(of_vector.data(), vector.data());
    EXPECT_EQ(of_vector.size(), 100u);
    EXPECT_EQ(of_span.data(), vector.data() + 3);
    EXPECT_EQ(of_span.size(), 7u);
    EXPECT_FALSE(of_vector.may_allocate());
    static_assert(!std::convertible_to<std::vector<char>&, workspace_ref> &&
                  !std::convertible_to<std::vector<std::byte> const&, workspace_ref>);
    static_assert(!std::convertible_to<std::vector<std::byte>, workspace_ref>);    // it would dangle
}

TEST(WorkspaceRef, AllocateIsAskedForByName) {
    constexpr workspace_ref from_heap = allocate{};
    static_assert(from_heap.may_allocate() && from_heap.data() == nullptr && from_heap.size() == 0);
}

TEST(CallMemory, IsTheCallersWhereThereIsSome) {
    std::vector<std::byte> bytes(10);
    EXPECT_EQ((call_memory{bytes, 10}.data()), bytes.data());
    EXPECT_EQ((call_memory{workspace_ref{}, 10}.data()), nullptr);
}

TEST(CallMemory, IsAlignedToACacheLineWhenAllocatedAndFreedAtTheEnd) {
    for (std::size_t const bytes : {std::size_t{1}, std::size_t{64}, std::size_t{100}, std::size_t{1} << 20}) {
        call_memory const memory{allocate{}, bytes};
        ASSERT_NE(memory.data(), nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % imbrex::cache_line_bytes, 0u);
        for (std::size_t i = 0; i < bytes; ++i) memory.data()[i] = std::byte{1};
    }
}

TEST(Arena, PiecesFollowEachOtherInWholeCacheLines) {
    alignas(64) std::array<std::byte, 1024> block;
    arena a{block.data()};
    EXPECT_EQ(static_cast<void*>(a.take<float>(3)), block.data());
    EXPECT_EQ(a.used(), 64u);
    EXPECT_EQ(static_cast<void*>(a.take<double>(8)), block.data() + 64);
    EXPECT_EQ(static_cast<void*>(a.take<std::byte>(65)), block.data() + 128);
    EXPECT_EQ(static_cast<void*>(a.take<float>(0)), block.data() + 256);
    EXPECT_EQ(static_cast<void*>(a.take<float>(1)), block.data() + 256);
    EXPECT_EQ(a.used(), 320u);
    a.skip(128);
    EXPECT_EQ(static_cast<void*>(a.take<float>(1)), block.data() + 448);
}

TEST(Arena, OverANullBlockOnlyCounts) {
    alignas(64) std::array<std::byte, 1024> block;
    arena real{block.data()}, counting{nullptr};
    for (index const count : {1, 0, 17, 64}) {
        real.take<float>(count);
        EXPECT_EQ(counting.take<float>(count), nullptr);
        EXPECT_EQ(counting.used(), real.used());
    }
}

TEST(Arena, CountsBeyondThirtyTwoBits) {
    arena counting{nullptr};
    counting.take<float>(index{1} << 40);
    EXPECT_EQ(counting.used(), std::size_t{1} << 42);
}

// A causal GQA call: token count above or below what the narrow unit takes.
class WorkspaceOfACall : public testing::TestWithParam<index> {
protected:
    imbrex::shape4 const q_shape{1, GetParam(), 4, 24};
    imbrex::shape4 const kv_shape{1, 83, 2, 24};

    std::vector<float> const q = filled(q_shape, 1), k = filled(kv_shape, 2), v = filled(kv_shape, 3);

    static std::vector<float> filled(imbrex::shape4 shape, unsigned seed) {
        std::mt19937 random{seed};
        std::normal_distribution<float> normal;
        std::vector<float> values(static_cast<std::size_t>(shape.elements()));
        for (float& x : values) x = normal(random);
        return values;
    }
    imbrex::plan plan() const {
        imbrex::plan p;
        EXPECT_TRUE(imbrex::make_plan<imbrex::precision<float>>(
            {.q_tokens = q_shape.tokens, .kv_tokens = 83, .q_heads = 4, .kv_heads = 2, .head_dim = 24}, p));
        return p;
    }
    std::vector<float> attend(workspace_ref workspace) const {
        std::vector<float> out(q.size(), -7.f);
        imbrex::status const s = imbrex::attention(
            plan(), imbrex::bhsd(q.data(), q_shape),
            imbrex::dense_kv{imbrex::bhsd(k.data(), kv_shape), imbrex::bhsd(v.data(), kv_shape)},
            imbrex::bhsd(out.data(), q_shape), imbrex::causal{imbrex::align::bottom_right}, {.workspace = workspace});
        EXPECT_TRUE(s.ok()) << s.message().c_str();
        return out;
    }
};

TEST_P(WorkspaceOfACall, MayHaveAnyAlignmentAndIsNeverOverrun) {
    std::vector<float> const expected = attend(allocate{});
    std::size_t const bytes = imbrex::workspace_bytes(plan());
    for (std::size_t offset = 0; offset <= 65; ++offset) {
        // Ends where a forbidden page begins; the offset bytes before it must come out untouched.
        imbrex_test::guarded<std::byte> const at_end(bytes + offset);
        ASSERT_EQ(attend(std::span{at_end.data() + offset, bytes}), expected) << "offset " << offset;
        for (std::size_t i = 0; i < offset; ++i) ASSERT_EQ(at_end.data()[i], std::byte{0xff});

        imbrex_test::guarded<std::byte> const at_start(bytes + offset, imbrex_test::guard::before);
        ASSERT_EQ(attend(std::span{at_start.data(), bytes}), expected) << "offset " << offset;
        for (std::size_t i = 0; i < offset; ++i) ASSERT_EQ(at_start.data()[bytes + i], std::byte{0xff});
    }
}

TEST_P(WorkspaceOfACall, MayHoldAnything) {
    std::vector<float> const expected = attend(allocate{});
    std::vector<std::byte> dirty(imbrex::workspace_bytes(plan()));
    for (int const fill : {0x00, 0xff, 0x7f, 0x80}) {
        std::fill(dirty.begin(), dirty.end(), static_cast<std::byte>(fill));
        ASSERT_EQ(attend(dirty), expected) << "filled with " << fill;
    }
    EXPECT_EQ(attend(dirty), expected);    // and what the last call left in it
}

TEST_P(WorkspaceOfACall, MayBeLargerThanNeeded) {
    std::vector<std::byte> large(imbrex::workspace_bytes(plan()) + 4096);
    EXPECT_EQ(attend(large), attend(allocate{}));
}

INSTANTIATE_TEST_SUITE_P(Tokens, WorkspaceOfACall, testing::Values(1, 3, 37));

}    // namespace
