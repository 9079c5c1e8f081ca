// Every error of shapes and memory by a real call. Those of plans, workspace, executor and scale are in
// attention_plan_errors_test.cpp.
#include "imbrex/imbrex.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "refusal.hpp"

namespace imbrex_test {
namespace {

static_assert(static_cast<int>(errc::scale_not_finite) == 30,
              "a code was added or removed: give it a call here or in attention_plan_errors_test.cpp, then mend this number");

TEST_F(Refusal, ThereIsNoneForTheCallThatTheTestsSpoil) {
    EXPECT_TRUE(call().ok()) << call().message().c_str();
    EXPECT_TRUE(call(fitting).ok()) << call(fitting).message().c_str();
    EXPECT_EQ(out.data[0], 0.25f);
}

TEST_F(Refusal, NegativeSize) {
    q.shape.heads = -4;
    expect_refused(errc::negative_size, {"query", "-4", "0 or more"});
    q.shape.heads = 4;
    k.shape.tokens = -5;
    expect_refused(errc::negative_size, {"key", "-5"});
    k.shape.tokens = 5;
    v.shape.batch = -1;
    expect_refused(errc::negative_size, {"value", "-1"});
    v.shape.batch = 2;
    out.shape.tokens = std::numeric_limits<index>::min();
    expect_refused(errc::negative_size, {"output", "-9223372036854775808"});
}

TEST_F(Refusal, MoreTokensThanPositionsCount) {
    q.shape.tokens = index{1} << 31;
    expect_refused(errc::too_long, {"query", "2147483648", "2147483647"});
    q.shape.tokens = 3;
    k.shape.tokens = v.shape.tokens = std::numeric_limits<index>::max();
    expect_refused(errc::too_long, {"key", "9223372036854775807", "2147483647"});
}

TEST_F(Refusal, MoreSequencesOrHeadsThanAreCounted) {
    q.shape.batch = imbrex::max_length + 1;
    expect_refused(errc::too_many, {"query", "2147483648 sequences or heads", "2147483647"});
    q.shape.batch = 2;
    out.shape.heads = std::numeric_limits<index>::max();
    expect_refused(errc::too_many, {"output", "9223372036854775807", "2147483647"});
}

TEST_F(Refusal, HeadDimOutOfRange) {
    q.shape.head_dim = k.shape.head_dim = 0;
    expect_refused(errc::head_dim_range, {"query", "head_dim 0", "between 1 and 1024"});
    q.shape.head_dim = k.shape.head_dim = 1025;
    expect_refused(errc::head_dim_range, {"query", "head_dim 1025", "1024"});
    q.shape.head_dim = k.shape.head_dim = 8;
    v.shape.head_dim = out.shape.head_dim = 4096;
    expect_refused(errc::head_dim_range, {"value", "4096"});
}

TEST_F(Refusal, HeadDimsOfQueryAndKeyDiffer) {
    k.shape.head_dim = 7;
    expect_refused(errc::head_dim_mismatch, {"query has head_dim 8", "key has 7"});
}

TEST_F(Refusal, QueryHeadsAreNoMultipleOfKvHeads) {
    k.shape.heads = v.shape.heads = 3;
    expect_refused(errc::heads_not_divisible, {"4 query heads", "3 kv heads"});
    k.shape.heads = v.shape.heads = 8;
    expect_refused(errc::heads_not_divisible, {"4 query heads", "8 kv heads"});
    k.shape.heads = v.shape.heads = 0;
    expect_refused(errc::heads_not_divisible, {"4 query heads", "0 kv heads"});
}

TEST_F(Refusal, KeyAndValueDifferInHeadsOrTokens) {
    v.shape.heads = 1;
    expect_refused(errc::kv_heads_mismatch, {"key has 2 heads", "value has 1"});
    v.shape.heads = 2;
    v.shape.tokens = 4;
    expect_refused(errc::kv_tokens_mismatch, {"key has 5 tokens", "value has 4"});
}

TEST_F(Refusal, BatchOfKvIsNeitherTheQuerysNorOne) {
    k.shape.batch = 3;
    expect_refused(errc::batch_mismatch, {"key has batch 3", "query has 2"});
    k.shape.batch = 1;
    v.shape.batch = 0;
    expect_refused(errc::batch_mismatch, {"value has batch 0", "query has 2"});
}

TEST_F(Refusal, EachAxisOfTheOutput) {
    index* const axes[] = {&out.shape.batch, &out.shape.tokens, &out.shape.heads, &out.shape.head_dim};
    index const right[] = {2, 3, 4, 6};
    for (int i = 0; i < 4; ++i) {
        *axes[i] = right[i] + 7;
        expect_refused(errc::output_shape, {"axis " + std::to_string(i), "is " + std::to_string(right[i] + 7),
                                            "must be " + std::to_string(right[i])});
        *axes[i] = right[i];
    }
    out.shape.head_dim = 8;    // the query's, where the value's is meant
    expect_refused(errc::output_shape, {"axis 3", "is 8", "must be 6"});
}

TEST_F(Refusal, LastAxisIsNotContiguous) {
    q.strides.dim = 3;
    expect_refused(errc::dim_stride, {"query", "stride 3", "head_dim", "must be 1"});
    q.strides.dim = 1;
    k.strides.dim = 0;
    expect_refused(errc::dim_stride, {"key", "stride 0"});
    k.strides.dim = 1;
    v.strides.dim = -1;
    expect_refused(errc::dim_stride, {"value", "stride -1"});
    v.strides.dim = 1;
    out.strides.dim = 24;
    expect_refused(errc::dim_stride, {"output", "stride 24"});
}

TEST_F(Refusal, StridesReachFurtherThanAddresses) {
    k.strides.token = index{1} << 60;
    expect_refused(errc::too_far, {"key", "size 5", "stride 1152921504606846976"});
    k.strides.token = std::numeric_limits<index>::min();
    expect_refused(errc::too_far, {"key", "size 5", "stride -9223372036854775808"});
    k.strides.token = 16;
    out.strides.head = index{1} << 62;
    expect_refused(errc::too_far, {"output", "size 4", "stride 4611686018427387904"});
    out.strides.head = 6;
    o.lse.batch_stride = std::numeric_limits<index>::max();
    expect_refused(errc::too_far, {"lse", "size 2", "stride 9223372036854775807"});
}

TEST_F(Refusal, NullData) {
    q.data = nullptr;
    expect_refused(errc::null_data, {"query", "3 tokens", "null"});
    q.data = block.data();
    v.data = nullptr;
    expect_refused(errc::null_data, {"value", "5 tokens", "null"});
    v.data = block.data() + 1024;
    out.data = nullptr;
    expect_refused(errc::null_data, {"output", "3 tokens", "null"});
}

template <class T>
T* off_by_one_byte(T* data) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data) + 1);
}

TEST_F(Refusal, MisalignedData) {
    k.data = off_by_one_byte(k.data);
    expect_refused(errc::misaligned, {"key", "alignment of 4"});
    k.data = block.data() + 512;
    out.data = off_by_one_byte(out.data);
    expect_refused(errc::misaligned, {"output", "alignment of 4"});
    out.data = block.data() + 2048;
    o.lse.data = off_by_one_byte(o.lse.data);
    expect_refused(errc::misaligned, {"lse", "alignment of 4"});
}

TEST_F(Refusal, ResultsShareAnAddress) {
    out.strides.head = 5;
    expect_refused(errc::output_self_overlap, {"output", "stride 5", "size 4"});
    out.strides.head = 6;
    out.strides.batch = 0;
    expect_refused(errc::output_self_overlap, {"output", "stride 0", "size 2"});
    out.strides.batch = 72;
    o.lse.token_stride = 0;
    expect_refused(errc::output_self_overlap, {"lse", "stride 0", "size 3"});
}

TEST_F(Refusal, OutputLiesOnAnInput) {
    float* const places[] = {block.data(), block.data() + 512, block.data() + 1024};
    char const* const names[] = {"query", "key", "value"};
    for (int i = 0; i < 3; ++i) {
        out.data = places[i];
        expect_refused(errc::output_overlaps_input, {names[i], "in place"});
        out.data = places[i] + 9;
        expect_refused(errc::output_overlaps_input, {names[i]});
    }
}

TEST_F(Refusal, LseLiesOnAnotherTensor) {
    float* const places[] = {block.data(), block.data() + 512, block.data() + 1024, block.data() + 2048};
    char const* const names[] = {"query", "key", "value", "output"};
    for (int i = 0; i < 4; ++i) {
        o.lse.data = places[i] + 1;
        expect_refused(errc::lse_overlap, {names[i], "of its own"});
    }
}

TEST_F(Refusal, ThereIsNoneForSlicesOfOnePackedBuffer) {
    constexpr index row = (4 + 2 + 2 + 4) * 8;    // q k v out
    imbrex::strides4 const strides{3 * row, row, 8, 1};
    block.assign(static_cast<std::size_t>(2 * 3 * row), 0.5f);
    auto const slice = [&](index first_head, index heads) {
        return imbrex::strided(block.data() + first_head * 8, {2, 3, heads, 8}, strides);
    };
    q = slice(0, 4);
    k = slice(4, 2);
    v = slice(6, 2);
    out = slice(8, 4);
    std::vector<float> lse(24);
    o.lse = imbrex::bhs(lse.data(), q_shape);
    status const s = call();
    EXPECT_TRUE(s.ok()) << s.message().c_str();
    for (float const x : block) ASSERT_EQ(x, 0.5f);    // inputs untouched, and attention over equal values gives that value
    out = slice(7, 4);
    expect_refused([&] { return call(); }, errc::output_overlaps_input, {"value"});
}

TEST_F(Refusal, ThereIsNoneForAnEmptyCallAndItNeedsNoWorkspace) {
    o.workspace = {};
    q.shape.tokens = out.shape.tokens = 0;
    q.data = nullptr;
    out.data = nullptr;
    EXPECT_TRUE(call().ok()) << call().message().c_str();
}

// Sixteen-bit elements: alignment of 2, and the same refusals.
TEST(Refusal16, Bf16TensorsAreRefusedAndAcceptedByTheirOwnAlignment) {
    std::vector<imbrex::bf16> block(256, imbrex::bf16(1.f));
    std::vector<float> sums(4, -7.f);
    shape4 const shape{1, 4, 1, 8};
    auto const call = [&](imbrex::bf16* q) {
        return imbrex::attention(imbrex::bshd<imbrex::bf16 const>(q, shape),
                                 dense_kv{imbrex::bshd<imbrex::bf16 const>(block.data() + 33, shape),
                                          imbrex::bshd<imbrex::bf16 const>(block.data() + 65, shape)},
                                 imbrex::bshd(block.data() + 97, shape), imbrex::full{},
                                 {.lse = imbrex::bhs(sums.data(), shape), .workspace = imbrex::allocate{}});
    };
    status const s = call(off_by_one_byte(block.data()));
    EXPECT_EQ(s.code(), errc::misaligned);
    EXPECT_EQ(s.value(1), 2);
    EXPECT_EQ(sums, std::vector<float>(4, -7.f));
    EXPECT_TRUE(call(block.data() + 1).ok());
}

}    // namespace
}    // namespace imbrex_test
