// plan.hpp: arithmetic only. What a plan chooses, what it needs, and what it refuses.
#include "imbrex/plan.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <type_traits>

#include <gtest/gtest.h>

namespace {

using imbrex::bf16;
using imbrex::errc;
using imbrex::f16;
using imbrex::fixed_tiles;
using imbrex::index;
using imbrex::kv_layout;
using imbrex::plan;
using imbrex::precision;
using imbrex::problem;
using imbrex::status;
using imbrex::tile_shape;
using imbrex::unit_kind;
using imbrex::workspace_bytes;
using imbrex::workspace_layout;

template <class P = precision<float>, class Tiles = imbrex::tuned_tiles>
plan planned(problem const& shape) {
    plan p;
    status const s = imbrex::make_plan<P, Tiles>(shape, p);
    EXPECT_TRUE(s.ok()) << s.message().c_str();
    return p;
}

template <class P = precision<float>, class Tiles = imbrex::tuned_tiles>
status refused(problem const& shape) {
    plan p;
    status const s = imbrex::make_plan<P, Tiles>(shape, p);
    EXPECT_FALSE(p.made()) << "a plan was made in spite of: " << s.message().c_str();
    return s;
}

constexpr problem prefill{.batch = 2, .q_tokens = 512, .kv_tokens = 512, .q_heads = 8, .kv_heads = 2, .head_dim = 64};

bool contains(std::string_view text, std::string_view piece) { return text.find(piece) != std::string_view::npos; }

template <class P>
class PlanOf : public testing::Test {};
using precisions = testing::Types<precision<float>, precision<double>, precision<bf16>, precision<f16>, precision<float, bf16>,
                                  precision<bf16, bf16, bf16, float>, precision<float, float, f16>>;
TYPED_TEST_SUITE(PlanOf, precisions);

TEST(Plan, DefaultIsNotMade) {
    constexpr plan p;
    static_assert(!p.made());
    EXPECT_EQ(imbrex::path_of(p).view(), "no plan was made");
    static_assert(std::is_trivially_copyable_v<plan>);
}

TYPED_TEST(PlanOf, WorkspaceBytesAreThoseOfTheLayoutPlusTheAlignment) {
    for (kv_layout const layout : {kv_layout::contiguous, kv_layout::strided}) {
        problem shape = prefill;
        shape.layout = layout;
        plan const p = planned<TypeParam>(shape);
        for (index workers = 1; workers <= 9; ++workers) {
            workspace_layout const counted = workspace_layout::of(p, workers, nullptr);
            EXPECT_EQ(workspace_bytes(p, workers), counted.bytes + imbrex::cache_line_bytes - 1);
        }
    }
}

TYPED_TEST(PlanOf, PiecesOfTheWorkspaceAreApartAlignedAndInsideIt) {
    problem shape = prefill;
    shape.layout = kv_layout::strided;
    shape.kv_tokens = 100000;    // split in decode
    plan const p = planned<TypeParam>(shape);
    ASSERT_GT(p.copy_bytes, 0);
    alignas(64) static std::byte base[64];
    for (index const workers : {1, 2, 7}) {
        workspace_layout const w = workspace_layout::of(p, workers, base);
        std::byte const* const order = reinterpret_cast<std::byte*>(w.order);
        std::byte const* const first_item = reinterpret_cast<std::byte*>(w.first_item);
        EXPECT_GE(order - base, 64);
        EXPECT_GE(first_item - order, p.shape.batch * static_cast<index>(sizeof(*w.order)));
        std::byte const* const first_state = reinterpret_cast<std::byte*>(w.first_state);
        EXPECT_GE(first_state - first_item, (p.shape.batch + 1) * static_cast<index>(sizeof(*w.first_item)));
        EXPECT_GE(w.slots - first_state, (p.shape.batch + 1) * static_cast<index>(sizeof(*w.first_state)));
        EXPECT_EQ((first_item - base) % 64, 0);
        index const counter = w.counter - base, slots = w.slots - base, copies = w.copies - base;
        EXPECT_EQ(counter, 0);
        EXPECT_GE(slots, 64);    // the counter has a cache line of its own
        EXPECT_GE(copies, slots + workers * p.slot_bytes);
        index const states = w.states - base;
        EXPECT_GE(states, copies + p.heads_per_wave(workers) * p.copy_bytes);
        EXPECT_EQ(w.state_count > 0, p.narrow_rows >= p.shape.group());
        EXPECT_EQ(static_cast<index>(w.bytes), states + w.state_count * p.split.state_bytes);
        for (index const offset : {slots, copies, states, p.slot_bytes, p.copy_bytes, p.split.state_bytes})
            EXPECT_EQ(offset % 64, 0) << offset;
    }
}

TYPED_TEST(PlanOf, SlotHoldsWhatTheUnitsLayOut) {
    using P = TypeParam;
    plan const p = planned<P>(prefill);
    imbrex::arena wide{nullptr}, narrow{nullptr};
    imbrex::wide_families<P>::with(p.wide, [&](auto family) { decltype(family)::scratch::lay_out(wide, p.shape, p.wide_tiles); });
    imbrex::lay_out_narrow<P>(narrow, p.shape, p.narrow_rows, p.narrow_kv_cols);
    EXPECT_EQ(static_cast<std::size_t>(p.slot_bytes), std::max(wide.used(), narrow.used()));
}

TYPED_TEST(PlanOf, ExtraMemoryIsAtMost512KiBAThreadForAnyLengthBesidePackedHeadsWithinABudget) {
    if (std::is_same_v<typename TypeParam::score, double>) GTEST_SKIP() << "f64 is a checking aid";
    for (index head_dim = 1; head_dim <= 256; ++head_dim) {
        for (index const tokens : {index{1}, index{777}, index{1} << 20, imbrex::max_length}) {
            plan const p = planned<TypeParam>(
                {.batch = 64, .q_tokens = tokens, .kv_tokens = tokens, .q_heads = 8, .kv_heads = 8, .head_dim = head_dim});
            for (index const workers : {1, 2, 64}) {
                index const states = workspace_layout::of(p, workers, nullptr).state_count;
                ASSERT_LE(states, std::max(imbrex::tune::most_parts, imbrex::tune::parts_per_worker * workers));
                ASSERT_LE(p.split.state_bytes, 8 * (head_dim + 63) * 4 + 4 * 64);
                index const packed = p.copy_bytes > 0 ? p.heads_per_wave(workers) * p.copy_bytes : 0;
                ASSERT_LE(packed, imbrex::tune::copy_budget_bytes);
                ASSERT_TRUE(packed == 0 || p.wide != imbrex::wide_kind::widened);
                ASSERT_LE(workspace_bytes(p, workers) - static_cast<std::size_t>(states * p.split.state_bytes + packed),
                          static_cast<std::size_t>(workers) * 512 * 1024)
                    << "head_dim " << head_dim << ", " << tokens;
            }
        }
    }
}

TYPED_TEST(PlanOf, StridedKvAddsOneCopiedHeadPerThread) {
    using T = typename TypeParam::score;
    problem shape = prefill;
    shape.head_dim = 80;
    shape.head_dim_v = 48;
    plan const contiguous = planned<TypeParam>(shape);
    shape.layout = kv_layout::strided;
    plan const strided = planned<TypeParam>(shape);
    if (contiguous.wide ==
        imbrex::wide_kind::bf16_pairs) {    // keys in whole cache lines; values in pairs, of keys back to back too
        EXPECT_EQ(contiguous.copy_bytes, (shape.kv_tokens / 2 + 1) * 48 * 4);
        EXPECT_EQ(strided.copy_bytes, contiguous.copy_bytes + shape.kv_tokens * 96 * 2);
    } else if (contiguous.wide == imbrex::wide_kind::widened) {
        constexpr index W = imbrex::lane_count<T>;
        index const padded = (80 + W - 1) / W * W + (48 + W - 1) / W * W;
        EXPECT_EQ(contiguous.copy_bytes, 0);
        EXPECT_EQ(strided.copy_bytes, shape.kv_tokens * padded * static_cast<index>(sizeof(T)));
    }
    index const scratch = strided.slot_bytes - contiguous.slot_bytes;    // of heads that few rows read together
    EXPECT_TRUE(scratch >= 0 && scratch <= imbrex::tune::heads_together_bytes);
    for (index workers = 1; workers <= 4; ++workers) {
        EXPECT_EQ(workspace_bytes(strided, workers) - workspace_bytes(contiguous, workers),
                  static_cast<std::size_t>(workers * scratch + strided.heads_per_wave(workers) * strided.copy_bytes -
                                           contiguous.heads_per_wave(workers) * contiguous.copy_bytes));
    }
}

TEST(Plan, CopiesStayWithinABudgetHoweverManyWorkersAndNeverBelowOneHead) {
    problem shape = prefill;
    shape.layout = kv_layout::strided;
    for (index const kv_tokens : {index{512}, index{1} << 15, index{1} << 20, imbrex::max_length}) {
        shape.kv_tokens = kv_tokens;
        plan const p = planned(shape);
        for (index const workers : {index{1}, index{2}, index{64}, imbrex::max_workers}) {
            index const heads = p.heads_per_wave(workers);
            EXPECT_TRUE(heads >= 1 && heads <= workers);
            EXPECT_TRUE(heads == 1 || heads * p.copy_bytes <= imbrex::tune::copy_budget_bytes)
                << heads << " heads of " << p.copy_bytes;
        }
    }
}

TEST(Plan, CopiesNothingWhereFewRowTilesWouldReadTheCopy) {
    problem shape{.q_tokens = 1, .kv_tokens = 4096, .q_heads = 4, .kv_heads = 4, .head_dim = 128, .layout = kv_layout::strided};
    EXPECT_EQ(planned(shape).copy_bytes, 0);
    index const rows = planned(shape).wide_tiles.q_rows;
    shape.q_tokens = rows * imbrex::tune::copy_from_row_tiles - 1;
    EXPECT_EQ(planned(shape).copy_bytes, 0);
    shape.q_tokens += 1;
    EXPECT_GT(planned(shape).copy_bytes, 0);
}

TYPED_TEST(PlanOf, FewRowsOfAKvHeadGoToTheNarrowUnitAndMoreToTheWide) {
    plan const p = planned<TypeParam>({.q_tokens = 64, .kv_tokens = 64, .q_heads = 8, .kv_heads = 8, .head_dim = 32});
    ASSERT_GE(p.narrow_rows, 1);
    for (index q = 0; q <= 64; ++q) EXPECT_EQ(p.unit(q), q <= p.narrow_rows ? unit_kind::narrow : unit_kind::wide) << q;
    plan const grouped = planned<TypeParam>({.q_tokens = 64, .kv_tokens = 64, .q_heads = 8, .kv_heads = 4, .head_dim = 32});
    for (index q = 0; q <= 64; ++q)
        EXPECT_EQ(grouped.unit(q), 2 * q <= grouped.narrow_rows ? unit_kind::narrow : unit_kind::wide) << q;
}

TYPED_TEST(PlanOf, ForDecodeAloneHoldsNoWideScratch) {
    using P = TypeParam;
    plan const p = planned<P>({.q_tokens = 1, .kv_tokens = 100000, .q_heads = 2, .kv_heads = 1, .head_dim = 128});
    imbrex::arena narrow{nullptr};
    imbrex::lay_out_narrow<P>(narrow, p.shape, p.narrow_rows, p.narrow_kv_cols);
    EXPECT_EQ(static_cast<std::size_t>(p.slot_bytes), narrow.used());
}

TEST(Plan, NeedsNoMoreForShorterCallsSoCapacitiesHold) {
    plan const p = planned(prefill);
    for (index q : {0, 1, 5, 511, 512}) {
        problem shape = prefill;
        shape.q_tokens = q;
        EXPECT_LE(planned(shape).slot_bytes, p.slot_bytes) << q;
    }
}

TEST(Plan, ScratchDoesNotGrowWithLengthsBatchOrHeads) {
    problem shape = prefill;
    index const slot = planned(shape).slot_bytes;
    shape.kv_tokens = imbrex::max_length;
    shape.q_tokens = imbrex::max_length;
    shape.batch = 1000;
    shape.q_heads = 800;
    shape.kv_heads = 200;
    EXPECT_EQ(planned(shape).slot_bytes, slot);
}

// The bytes that a call uses are told by the function that hands them out (known fault: scratch of another size).
TYPED_TEST(PlanOf, StatesOfPartsAreWhatIsLaidOutForTheRowsOfTheCall) {
    using P = TypeParam;
    for (index const q_tokens : {1, 2, 512}) {
        plan const p = planned<P>(
            {.q_tokens = q_tokens, .kv_tokens = 100000, .q_heads = 6, .kv_heads = 2, .head_dim = 64, .head_dim_v = 72});
        imbrex::arena state{nullptr};
        imbrex::part_slot<P>::lay_out(state, std::min(p.narrow_rows, 3 * q_tokens), 72);
        EXPECT_EQ(static_cast<std::size_t>(p.split.state_bytes), p.narrow_rows >= 3 ? state.used() : 0u);
        EXPECT_EQ(p.kv_parts(1, 100000) > 1, p.narrow_rows >= 3);
        EXPECT_EQ(p.kv_parts(512, 100000), 1);
    }
}

TEST(Plan, SplitsNothingWhereKeysAreFewOrRowsAreMany) {
    problem shape{.q_tokens = 1, .kv_tokens = 2048, .q_heads = 8, .kv_heads = 8, .head_dim = 128};
    EXPECT_EQ(workspace_layout::of(planned(shape), 64, nullptr).state_count, 0);
    shape.kv_tokens = 2049;
    EXPECT_EQ(workspace_layout::of(planned(shape), 64, nullptr).state_count, 8 * 2);
    EXPECT_TRUE(contains(imbrex::path_of(planned(shape)), "kv in 2 parts"));
    shape.kv_tokens = 1 << 20;
    shape.q_heads = 8 * 9;
    EXPECT_EQ(workspace_layout::of(planned(shape), 64, nullptr).state_count, 0);
    shape.q_heads = 8;
    shape.q_tokens = 0;
    EXPECT_EQ(workspace_layout::of(planned(shape), 64, nullptr).state_count, 0);
}

TEST(Plan, HeadDimOfValuesIsThatOfKeysUnlessSaid) {
    problem shape = prefill;
    EXPECT_EQ(planned(shape).shape.head_dim_v, 64);
    shape.head_dim_v = 17;
    EXPECT_EQ(planned(shape).shape.head_dim_v, 17);
}

TYPED_TEST(PlanOf, PathTellsUnitTypesInstructionSetAndTiles) {
    using P = TypeParam;
    problem shape = prefill;
    shape.kv_heads = shape.q_heads;
    plan const p = planned<P>(shape);
    imbrex::status_text const wide = imbrex::path_of(p), narrow = imbrex::path_of(p, 1);
    EXPECT_TRUE(contains(wide, "wide unit")) << wide.view();
    EXPECT_TRUE(contains(narrow, "narrow unit")) << narrow.view();
    for (std::string_view const text : {wide.view(), narrow.view()}) {
        for (std::string_view const piece : {imbrex::dtype_name<typename P::query>(), imbrex::dtype_name<typename P::key>(),
                                             imbrex::dtype_name<typename P::value>(), imbrex::dtype_name<typename P::output>(),
                                             std::string_view{IMBREX_ISA_NAME}}) {
            EXPECT_TRUE(contains(text, piece)) << '"' << piece << "\" is not in: " << text;
        }
        EXPECT_FALSE(contains(text, "copied")) << text;
    }
    imbrex::status_text tiles;
    tiles << p.wide_tiles.q_rows << " x " << p.wide_tiles.kv_cols;
    EXPECT_TRUE(contains(wide, tiles)) << wide.view();
    shape.layout = kv_layout::strided;
    std::string_view const packs = p.wide != imbrex::wide_kind::widened ? "packed once" : "copied";
    EXPECT_TRUE(contains(imbrex::path_of(planned<P>(shape)), packs));
    EXPECT_FALSE(contains(imbrex::path_of(planned<P>(shape), 1), packs));
}

TYPED_TEST(PlanOf, FixedTilesAreTakenAsTheyAre) {
    constexpr index W = imbrex::lane_count<typename TypeParam::score>;
    plan const p = planned<TypeParam, fixed_tiles<tile_shape{W, 48}>>(prefill);
    bool const on_amx =
        p.wide == imbrex::wide_kind::amx_tiles || p.wide == imbrex::wide_kind::amx_limb_tiles;    // which takes blocks of 32 keys, and so many as L2 holds
    EXPECT_EQ(p.wide_tiles, (on_amx ? tile_shape{16, 64} : tile_shape{W, 48}));
    EXPECT_EQ(p.narrow_kv_cols, 48);
    plan const largest = planned<TypeParam, fixed_tiles<tile_shape{W, imbrex::max_kv_cols}>>(prefill);
    if (!on_amx) {
        EXPECT_EQ(largest.wide_tiles.kv_cols, imbrex::max_kv_cols);
    }
}

template <index Rows, index Columns>
void expect_tiles_refused() {
    status const s = refused<precision<float>, fixed_tiles<tile_shape{Rows, Columns}>>(prefill);
    EXPECT_EQ(s.code(), errc::tiles_unsupported) << Rows << " x " << Columns;
    EXPECT_EQ(s.value(0), Rows);
    EXPECT_EQ(s.value(1), Columns);
}

TEST(Plan, TilesThatDoNotFitAreRefused) {
    constexpr index W = imbrex::lane_count<float>;
    expect_tiles_refused<0, 64>();
    expect_tiles_refused<-W, 64>();
    expect_tiles_refused<W / 2, 64>();
    expect_tiles_refused<W + 1, 64>();
    expect_tiles_refused<64 * W, 64>();
    expect_tiles_refused<W, 0>();
    expect_tiles_refused<W, -16>();
    expect_tiles_refused<W, 8>();
    expect_tiles_refused<W, 17>();
    expect_tiles_refused<W, imbrex::max_kv_cols + 16>();
}

struct misfit {
    char const* name;
    problem shape;
    errc code;
};

TEST(Plan, ProblemsThatCannotBeAreRefused) {
    misfit const misfits[] = {
        {"batch", {.batch = -1, .head_dim = 8}, errc::negative_size},
        {"q_tokens", {.q_tokens = -2, .head_dim = 8}, errc::negative_size},
        {"kv_tokens", {.kv_tokens = -3, .head_dim = 8}, errc::negative_size},
        {"q_heads", {.q_heads = -4, .head_dim = 8}, errc::negative_size},
        {"kv_heads", {.kv_heads = -5, .head_dim = 8}, errc::negative_size},
        {"long q", {.q_tokens = imbrex::max_length + 1, .head_dim = 8}, errc::too_long},
        {"long kv", {.kv_tokens = imbrex::max_length + 1, .head_dim = 8}, errc::too_long},
        {"no head_dim", {}, errc::head_dim_range},
        {"negative head_dim", {.head_dim = -8}, errc::head_dim_range},
        {"large head_dim", {.head_dim = 1025}, errc::head_dim_range},
        {"negative head_dim_v", {.head_dim = 8, .head_dim_v = -1}, errc::head_dim_range},
        {"large head_dim_v", {.head_dim = 8, .head_dim_v = 1025}, errc::head_dim_range},
        {"heads", {.q_heads = 7, .kv_heads = 2, .head_dim = 8}, errc::heads_not_divisible},
        {"no kv heads", {.q_heads = 7, .kv_heads = 0, .head_dim = 8}, errc::heads_not_divisible},
        {"fewer q heads", {.q_heads = 2, .kv_heads = 4, .head_dim = 8}, errc::heads_not_divisible},
    };
    for (misfit const& one : misfits) EXPECT_EQ(refused(one.shape).code(), one.code) << one.name;
}

TEST(Plan, ProblemsWithoutRowsKeysOrHeadsAreFine) {
    for (problem const& shape :
         {problem{.batch = 0, .head_dim = 8}, problem{.q_tokens = 0, .kv_tokens = 9, .head_dim = 8},
          problem{.q_tokens = 9, .kv_tokens = 0, .head_dim = 8}, problem{.q_heads = 0, .kv_heads = 0, .head_dim = 8}}) {
        EXPECT_TRUE(planned(shape).made());
    }
}

TEST(Plan, AFailedPlanLeavesTheOneBefore) {
    plan p = planned(prefill);
    index const slot = p.slot_bytes;
    EXPECT_FALSE(imbrex::make_plan<precision<float>>({.head_dim = 0}, p));
    EXPECT_EQ(p.slot_bytes, slot);
    EXPECT_EQ(p.shape.head_dim, 64);
}

TEST(Plan, HugeProblemsAreCountedOrRefusedWithoutOverflow) {
    for (index const huge : {imbrex::max_length + 1, index{1} << 40, index{1} << 62, std::numeric_limits<index>::max()}) {
        for (index problem::*size : {&problem::batch, &problem::q_heads, &problem::kv_heads}) {
            problem shape = prefill;
            shape.layout = kv_layout::strided;
            shape.kv_heads = 1;
            shape.*size = huge;
            EXPECT_EQ(refused(shape).code(), errc::too_many) << huge;
        }
    }
    plan const longest = planned({.batch = imbrex::max_length,
                                  .q_tokens = imbrex::max_length,
                                  .kv_tokens = imbrex::max_length,
                                  .q_heads = imbrex::max_length,
                                  .head_dim = imbrex::max_head_dim,
                                  .layout = kv_layout::strided});
    for (index const workers : {imbrex::max_workers + 1, index{1} << 60, std::numeric_limits<index>::max()}) {
        EXPECT_EQ(workspace_bytes(longest, workers), workspace_bytes(longest, imbrex::max_workers));
    }
    EXPECT_GE(longest.copy_bytes, imbrex::max_length * 2 * imbrex::max_head_dim * 4);
    EXPECT_GE(workspace_bytes(longest, imbrex::max_workers),
              static_cast<std::size_t>(longest.copy_bytes + imbrex::max_workers * longest.slot_bytes));
}

}    // namespace
