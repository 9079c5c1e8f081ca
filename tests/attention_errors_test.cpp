// Every error by a real call: its code, its numbers in the sentence, and not one byte of the output or the LSE touched.
#include "imbrex/imbrex.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

// The allocation that has to fail must come back as null, not end the program.
extern "C" char const* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" char const* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace {

using imbrex::allocate;
using imbrex::bf16;
using imbrex::dense_kv;
using imbrex::errc;
using imbrex::index;
using imbrex::options;
using imbrex::plan;
using imbrex::precision;
using imbrex::shape4;
using imbrex::status;
using imbrex::tensor_view;

static_assert(static_cast<int>(errc::scale_not_finite) == 27, "a code was added or removed: give it a call below, then mend this number");

// A right call, to be spoiled by a test: batch 2, 3 queries on 5 keys, 4 heads on 2, head_dim 8 and 6. All tensors are parts of
// one block, whose bytes tell whether anything was written.
class Refusal : public testing::Test {
protected:
    static constexpr shape4 q_shape{2, 3, 4, 8}, k_shape{2, 5, 2, 8}, v_shape{2, 5, 2, 6}, out_shape{2, 3, 4, 6};

    std::vector<float> block = std::vector<float>(4096, 0.25f);
    tensor_view<float const> q = imbrex::bshd<float const>(block.data(), q_shape);
    tensor_view<float const> k = imbrex::bshd<float const>(block.data() + 512, k_shape);
    tensor_view<float const> v = imbrex::bshd<float const>(block.data() + 1024, v_shape);
    tensor_view<float> out = imbrex::bshd(block.data() + 2048, out_shape);
    options o{.lse = imbrex::bhs(block.data() + 3072, q_shape), .workspace = allocate{}};

    static plan make(imbrex::problem const& shape) {
        plan p;
        EXPECT_TRUE(imbrex::make_plan<precision<float>>(shape, p).ok());
        return p;
    }
    plan const fitting = make({.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6});

    status call() { return imbrex::attention(q, dense_kv{k, v}, out, imbrex::causal{imbrex::align::bottom_right}, o); }
    status call(plan const& p) { return imbrex::attention(p, q, dense_kv{k, v}, out, imbrex::full{}, o); }

    using pieces = std::vector<std::string>;

    void expect_sentence(status const& s, errc code, pieces const& wanted) {
        EXPECT_EQ(s.code(), code) << s.message().c_str();
        imbrex::status_text const text = s.message();
        EXPECT_TRUE(text.view().starts_with("imbrex: ")) << text.view();
        for (std::string const& piece : wanted) {
            EXPECT_NE(text.view().find(piece), std::string_view::npos) << '"' << piece << "\" is not in: " << text.view();
        }
    }
    template <class Call>
    void expect_refused(Call f, errc code, pieces const& wanted) {
        std::vector<float> const before = block;
        status const s = f();
        expect_sentence(s, code, wanted);
        EXPECT_EQ(std::memcmp(block.data(), before.data(), block.size() * sizeof(float)), 0) << "written in spite of: " << s.message().c_str();
    }
    // With a plan of the call's own and with one of the caller's.
    void expect_refused(errc code, pieces const& wanted) {
        expect_refused([&] { return call(); }, code, wanted);
        expect_refused([&] { return call(fitting); }, code, wanted);
    }
    void expect_refused_by(plan const& p, errc code, pieces const& wanted) {
        expect_refused([&] { return call(p); }, code, wanted);
    }
};

TEST_F(Refusal, ThereIsNoneForTheCallThatTheTestsSpoil) {
    EXPECT_TRUE(call().ok()) << call().message().c_str();
    EXPECT_TRUE(call(fitting).ok()) << call(fitting).message().c_str();
    EXPECT_EQ(out.data[0], 0.25f);
}

// ---- shapes

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
        expect_refused(errc::output_shape,
                       {"axis " + std::to_string(i), "is " + std::to_string(right[i] + 7), "must be " + std::to_string(right[i])});
        *axes[i] = right[i];
    }
    out.shape.head_dim = 8;    // the query's, where the value's is meant
    expect_refused(errc::output_shape, {"axis 3", "is 8", "must be 6"});
}

// ---- memory

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

// ---- plans

TEST_F(Refusal, MoreTokensThanThePlanWasMadeFor) {
    expect_refused_by(make({.batch = 2, .q_tokens = 2, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6}),
                      errc::over_capacity, {"query has 3 tokens", "at most 2"});
    expect_refused_by(make({.batch = 2, .q_tokens = 3, .kv_tokens = 4, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6}),
                      errc::over_capacity, {"key has 5 tokens", "at most 4"});
}

TEST_F(Refusal, LargerBatchThanThePlanWasMadeFor) {
    expect_refused_by(make({.batch = 1, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6}),
                      errc::over_batch, {"query has batch 2", "at most 1"});
}

TEST_F(Refusal, PlanWasNeverMade) { expect_refused_by(plan{}, errc::plan_not_made, {"make_plan"}); }

TEST_F(Refusal, PlanIsForOtherElementTypes) {
    plan p;
    imbrex::problem const shape = fitting.shape;
    ASSERT_TRUE(imbrex::make_plan<precision<bf16>>(shape, p).ok());
    expect_refused_by(p, errc::plan_dtype, {"query", "element type"});
    ASSERT_TRUE((imbrex::make_plan<precision<float, bf16, float, float>>(shape, p).ok()));
    expect_refused_by(p, errc::plan_dtype, {"key"});
    ASSERT_TRUE((imbrex::make_plan<precision<float, float, bf16, float>>(shape, p).ok()));
    expect_refused_by(p, errc::plan_dtype, {"value"});
    ASSERT_TRUE((imbrex::make_plan<precision<float, float, float, bf16>>(shape, p).ok()));
    expect_refused_by(p, errc::plan_dtype, {"output"});
}

TEST_F(Refusal, PlanIsOfCodeForAnotherInstructionSet) {
    plan other = fitting;
    other.isa = "another";    // as a plan is that a file compiled with other flags made
    expect_refused_by(other, errc::plan_isa, {"instruction set"});
}

TEST_F(Refusal, PlanIsForOtherHeadsOrHeadDims) {
    struct {
        imbrex::problem shape;
        pieces wanted;
    } const cases[] = {
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 8, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6}, {"query heads is 4", "for 8"}},
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 4, .head_dim = 8, .head_dim_v = 6}, {"kv heads is 2", "for 4"}},
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 16, .head_dim_v = 6}, {"head_dim is 8", "for 16"}},
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 5}, {"value's head_dim is 6", "for 5"}},
    };
    for (auto const& one : cases) expect_refused_by(make(one.shape), errc::plan_mismatch, one.wanted);
}

TEST_F(Refusal, TilesDoNotFit) {
    expect_refused(
        [&] { return imbrex::attention<imbrex::fixed_tiles<imbrex::tile_shape{3, 64}>>(q, dense_kv{k, v}, out, imbrex::full{}, o); },
        errc::tiles_unsupported, {"3 x 64", "q_rows x kv_cols"});
    expect_refused(
        [&] { return imbrex::attention<imbrex::fixed_tiles<imbrex::tile_shape{16, 65}>>(q, dense_kv{k, v}, out, imbrex::full{}, o); },
        errc::tiles_unsupported, {"16 x 65"});
}

// ---- workspace, executor, scale

TEST_F(Refusal, WorkspaceIsMissingOrSmall) {
    std::size_t const bytes = imbrex::workspace_bytes(fitting);
    std::vector<std::byte> memory(bytes);
    o.workspace = {};
    expect_refused(errc::workspace_too_small, {"has 0 bytes", std::to_string(bytes) + " are needed", "allocate{}"});
    o.workspace = std::span{memory}.first(bytes - 1);
    expect_refused(errc::workspace_too_small, {"has " + std::to_string(bytes - 1) + " bytes", std::to_string(bytes) + " are needed"});
    o.workspace = memory;
    EXPECT_TRUE(call().ok());
    EXPECT_TRUE(call(fitting).ok());
}

struct crew {
    index workers;
    void run(index n, imbrex::task_ref task) const {
        for (index i = 0; i < n; ++i) task(i);
    }
    index max_workers() const { return workers; }
};

TEST_F(Refusal, WorkspaceIsTooSmallForTheWorkers) {
    crew const three{3};
    std::vector<std::byte> memory(imbrex::workspace_bytes(fitting, 3));
    o.executor = three;
    o.workspace = std::span{memory}.first(imbrex::workspace_bytes(fitting, 2));
    expect_refused(errc::workspace_too_small,
                   {"has " + std::to_string(imbrex::workspace_bytes(fitting, 2)), std::to_string(imbrex::workspace_bytes(fitting, 3)) + " are"});
    o.workspace = memory;
    EXPECT_TRUE(call(fitting).ok());
}

TEST_F(Refusal, AllocationFails) {
    crew const many{1024};
    o.executor = many;
    plan const enormous = make({.batch = 2, .q_tokens = 1 << 20, .kv_tokens = imbrex::max_length, .q_heads = 4, .kv_heads = 2, .head_dim = 8,
                                .head_dim_v = 6, .layout = imbrex::kv_layout::strided});
    std::size_t const bytes = imbrex::workspace_bytes(enormous, 1024);
    ASSERT_GT(bytes, std::size_t{1} << 47);    // more than an address space has
    expect_refused_by(enormous, errc::out_of_memory, {std::to_string(bytes) + " bytes", "failed"});
}

TEST_F(Refusal, ExecutorHasNoWorkers) {
    for (index const workers : {0, -3}) {
        crew const nobody{workers};
        o.executor = nobody;
        expect_refused(errc::no_workers, {"max_workers() = " + std::to_string(workers)});
    }
}

TEST_F(Refusal, ScaleIsNotFinite) {
    for (double const scale : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), std::nan(""), 1e300, -1e39}) {    // the last two as f32
        o.scale = scale;
        expect_refused(errc::scale_not_finite, {"scale", "finite"});
    }
}

// ---- what is fine

TEST_F(Refusal, ThereIsNoneForSlicesOfOnePackedBuffer) {
    constexpr index row = (4 + 2 + 2 + 4) * 8;    // q k v out
    imbrex::strides4 const strides{3 * row, row, 8, 1};
    block.assign(static_cast<std::size_t>(2 * 3 * row), 0.5f);
    auto const slice = [&](index first_head, index heads) { return imbrex::strided(block.data() + first_head * 8, {2, 3, heads, 8}, strides); };
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
    std::vector<bf16> block(256, bf16(1.f));
    std::vector<float> sums(4, -7.f);
    shape4 const shape{1, 4, 1, 8};
    auto const call = [&](bf16* q) {
        return imbrex::attention(imbrex::bshd<bf16 const>(q, shape), dense_kv{imbrex::bshd<bf16 const>(block.data() + 33, shape), imbrex::bshd<bf16 const>(block.data() + 65, shape)},
                                 imbrex::bshd(block.data() + 97, shape), imbrex::full{}, {.lse = imbrex::bhs(sums.data(), shape), .workspace = allocate{}});
    };
    status const s = call(off_by_one_byte(block.data()));
    EXPECT_EQ(s.code(), errc::misaligned);
    EXPECT_EQ(s.value(1), 2);
    EXPECT_EQ(sums, std::vector<float>(4, -7.f));
    EXPECT_TRUE(call(block.data() + 1).ok());
}

}    // namespace
