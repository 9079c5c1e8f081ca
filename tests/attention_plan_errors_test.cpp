// Every error of plans, workspace, executor and scale by a real call. Those of shapes and memory are in
// attention_errors_test.cpp.
#include "imbrex/imbrex.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "refusal.hpp"

// The allocation that has to fail must come back as null, not end the program.
extern "C" char const* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" char const* __tsan_default_options() { return "allocator_may_return_null=1"; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

namespace imbrex_test {
namespace {

using imbrex::bf16;

class PlanRefusal : public Refusal {};

TEST_F(PlanRefusal, MoreTokensThanThePlanWasMadeFor) {
    expect_refused_by(
        make({.batch = 2, .q_tokens = 2, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6}),
        errc::over_capacity, {"query has 3 tokens", "at most 2"});
    expect_refused_by(
        make({.batch = 2, .q_tokens = 3, .kv_tokens = 4, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6}),
        errc::over_capacity, {"key has 5 tokens", "at most 4"});
}

TEST_F(PlanRefusal, LargerBatchThanThePlanWasMadeFor) {
    expect_refused_by(
        make({.batch = 1, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6}),
        errc::over_batch, {"query has batch 2", "at most 1"});
}

TEST_F(PlanRefusal, PlanWasNeverMade) { expect_refused_by(plan{}, errc::plan_not_made, {"make_plan"}); }

TEST_F(PlanRefusal, PlanIsForOtherElementTypes) {
    plan p;
    imbrex::problem const shape = fitting.shape;
    ASSERT_TRUE(imbrex::make_plan<precision<bf16>>(shape, p).ok());
    expect_refused_by(p, errc::plan_dtype, {"query's element type is f32", "made for bf16"});
    ASSERT_TRUE((imbrex::make_plan<precision<float, bf16, float, float>>(shape, p).ok()));
    expect_refused_by(p, errc::plan_dtype, {"key"});
    ASSERT_TRUE((imbrex::make_plan<precision<float, float, bf16, float>>(shape, p).ok()));
    expect_refused_by(p, errc::plan_dtype, {"value"});
    ASSERT_TRUE((imbrex::make_plan<precision<float, float, float, bf16>>(shape, p).ok()));
    expect_refused_by(p, errc::plan_dtype, {"output"});
}

TEST_F(PlanRefusal, PlanIsOfCodeForAnotherInstructionSet) {
    plan other = fitting;
    other.isa = "another";    // as a plan is that a file compiled with other flags made
    expect_refused_by(other, errc::plan_isa, {"instruction set"});
}

TEST_F(PlanRefusal, PlanIsForProductsComputedOtherwise) {
    plan other;
    using widened = precision<float, float, float, float, imbrex::products::widened>;
    ASSERT_TRUE(imbrex::make_plan<widened>(fitting.shape, other).ok());
    expect_refused_by(other, errc::plan_products, {"products::widened", "products::as_stored"});
}

TEST_F(PlanRefusal, PlanIsForOtherHeadsOrHeadDims) {
    struct {
        imbrex::problem shape;
        pieces wanted;
    } const cases[] = {
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 8, .kv_heads = 2, .head_dim = 8, .head_dim_v = 6},
         {"query heads is 4", "for 8"}},
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 4, .head_dim = 8, .head_dim_v = 6},
         {"kv heads is 2", "for 4"}},
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 16, .head_dim_v = 6},
         {"head_dim is 8", "for 16"}},
        {{.batch = 2, .q_tokens = 3, .kv_tokens = 5, .q_heads = 4, .kv_heads = 2, .head_dim = 8, .head_dim_v = 5},
         {"value's head_dim is 6", "for 5"}},
    };
    for (auto const& one : cases) expect_refused_by(make(one.shape), errc::plan_mismatch, one.wanted);
}

TEST_F(PlanRefusal, TilesDoNotFit) {
    expect_refused(
        [&] {
            return imbrex::attention<imbrex::fixed_tiles<imbrex::tile_shape{3, 64}>>(q, dense_kv{k, v}, out, imbrex::full{}, o);
        },
        errc::tiles_unsupported, {"3 x 64", "q_rows x kv_cols"});
    expect_refused(
        [&] {
            return imbrex::attention<imbrex::fixed_tiles<imbrex::tile_shape{16, 65}>>(q, dense_kv{k, v}, out, imbrex::full{}, o);
        },
        errc::tiles_unsupported, {"16 x 65"});
}

TEST_F(PlanRefusal, WorkspaceIsMissingOrSmall) {
    std::size_t const bytes = imbrex::workspace_bytes(fitting);
    std::vector<std::byte> memory(bytes);
    o.workspace = {};
    expect_refused(errc::workspace_too_small, {"has 0 bytes", std::to_string(bytes) + " are needed", "allocate{}"});
    o.workspace = std::span{memory}.first(bytes - 1);
    expect_refused(errc::workspace_too_small,
                   {"has " + std::to_string(bytes - 1) + " bytes", std::to_string(bytes) + " are needed"});
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

TEST_F(PlanRefusal, WorkspaceIsTooSmallForTheWorkers) {
    crew const three{3};
    std::vector<std::byte> memory(imbrex::workspace_bytes(fitting, 3));
    o.executor = three;
    o.workspace = std::span{memory}.first(imbrex::workspace_bytes(fitting, 2));
    expect_refused(errc::workspace_too_small, {"has " + std::to_string(imbrex::workspace_bytes(fitting, 2)),
                                               std::to_string(imbrex::workspace_bytes(fitting, 3)) + " are"});
    o.workspace = memory;
    EXPECT_TRUE(call(fitting).ok());
}

TEST_F(PlanRefusal, WorkspaceLiesOnATensor) {
    std::size_t const floats = (imbrex::workspace_bytes(fitting) + 3) / 4;
    block.assign(floats + 4096, 0.25f);
    std::span<std::byte> const bytes = std::as_writable_bytes(std::span{block});
    o.workspace = bytes.first(4 * floats);
    auto const place = [&](index at) {    // everything behind the workspace, but for one tensor
        float* const behind = block.data() + floats;
        q.data = at == 0 ? behind - 1 : behind;
        k.data = at == 1 ? behind - 1 : behind + 512;
        v.data = at == 2 ? block.data() + 16 : behind + 1024;
        out.data = at == 3 ? block.data() : behind + 2048;
        o.lse.data = at == 4 ? block.data() : behind + 3072;
    };
    char const* const names[] = {"query", "key", "value", "output", "lse"};
    for (index i = 0; i < 5; ++i) {
        place(i);
        expect_refused(errc::workspace_overlap, {"workspace", names[i], "of its own"});
    }
    place(5);
    EXPECT_TRUE(call().ok()) << call().message().c_str();
}

// The allocator is held to 1 TiB, which sanitizers do by themselves; some systems promise any amount.
TEST_F(PlanRefusal, AllocationFails) {
    std::vector<float> const wide(2 * 1024, 0.25f);
    shape4 const shape{1, 1, 1, 1024};
    plan const enormous =
        make({.q_tokens = 1 << 20, .kv_tokens = imbrex::max_length, .head_dim = 1024, .layout = imbrex::kv_layout::strided});
    std::size_t const bytes = imbrex::workspace_bytes(enormous);
    ASSERT_GT(bytes, std::size_t{1} << 40);
    q = k = v = imbrex::bshd(wide.data(), shape);
    out = imbrex::bshd(block.data(), shape);
    o.lse = {};
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    if (!sanitized) {
        rlimit const one_tib{std::min<rlim_t>(before.rlim_max, rlim_t{1} << 40), before.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_AS, &one_tib), 0);
    }
    expect_refused_by(enormous, errc::out_of_memory, {std::to_string(bytes) + " bytes", "failed"});
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

TEST_F(PlanRefusal, ExecutorHasNoOrTooManyWorkers) {
    for (index const workers : {index{0}, index{-3}, imbrex::max_workers + 1, std::numeric_limits<index>::max()}) {
        crew const nobody{workers};
        o.executor = nobody;
        expect_refused(errc::no_workers, {"max_workers() = " + std::to_string(workers), "between 1 and 65536"});
    }
}

TEST_F(PlanRefusal, ScaleIsNotFinite) {
    // The last two are finite, but not as f32.
    for (double const scale :
         {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), std::nan(""), 1e300, -1e39}) {
        o.scale = scale;
        expect_refused(errc::scale_not_finite, {"scale", "finite"});
    }
}

}    // namespace
}    // namespace imbrex_test
