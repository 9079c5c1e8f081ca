// Which code is chosen, and what is said of it, for made-up binaries on made-up machines.
#include "imbrex/dispatch.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dispatch_test {

struct kernels {
    int number;
};
IMBREX_DISPATCHED(kernels)

template <int Number>
void const* table() noexcept {
    static constexpr kernels k{Number};
    return &k;
}

}    // namespace dispatch_test

extern "C" imbrex::dispatch::variant_list imbrex_dispatch_kernels() noexcept {
    using enum imbrex::instruction_set;
    static constexpr imbrex::dispatch::variant variants[] = {
        {x86_64_v2, dispatch_test::table<2>}, {x86_64_v3, dispatch_test::table<3>}, {amx, dispatch_test::table<9>}};
    return {variants, 3};
}

namespace {

using dispatch_test::kernels;
using imbrex::cpu_features;
using imbrex::instruction_set;
using imbrex::dispatch::choose;
using imbrex::dispatch::machine;

machine with(instruction_set s, bool (*ask_for_amx)() noexcept) { return {imbrex::features_of(s), ask_for_amx}; }
bool granted() noexcept { return true; }
bool refused() noexcept { return false; }

TEST(Dispatch, TheBestThatRunsIsChosen) {
    EXPECT_EQ(choose<kernels>("", with(instruction_set::amx, granted))->number, 9);
    EXPECT_EQ(choose<kernels>("", with(instruction_set::avx512_bf16, granted))->number, 3);
    EXPECT_EQ(choose<kernels>("", with(instruction_set::x86_64_v2, granted))->number, 2);
}

TEST(Dispatch, WhyIsSaidOfEveryChoice) {
    auto const best = choose<kernels>("", with(instruction_set::amx, granted));
    EXPECT_EQ(best.reason().view(), "amx, the best that runs here of x86-64-v2, x86-64-v3, amx");
    EXPECT_EQ(best.isa(), "amx");
    EXPECT_EQ(choose<kernels>("", with(instruction_set::x86_64_v4, granted)).reason().view(),
              "x86-64-v3, the best that runs here of x86-64-v2, x86-64-v3, amx; for amx the processor or the system lacks "
              "avx512_vnni");
}

TEST(Dispatch, RefusedPermissionForAmxFallsBackAndSaysSo) {
    auto const chosen = choose<kernels>("", with(instruction_set::amx, refused));
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->number, 3);
    EXPECT_NE(chosen.reason().view().find("the system refuses AMX's tiles"), std::string_view::npos) << chosen.reason().c_str();
}

TEST(Dispatch, PermissionForAmxIsNotAskedWhereItCannotBe) {
    auto const fail = []() noexcept {
        ADD_FAILURE() << "asked for AMX";
        return false;
    };
    EXPECT_EQ(choose<kernels>("", with(instruction_set::avx512_bf16, fail))->number, 3);
    EXPECT_EQ(choose<kernels>("x86-64-v2", with(instruction_set::amx, fail))->number, 2);
}

TEST(Dispatch, ASetThatIsAskedForIsTaken) {
    auto const forced = choose<kernels>("x86-64-v2", with(instruction_set::amx, granted));
    EXPECT_EQ(forced->number, 2);
    EXPECT_EQ(forced.reason().view(), "x86-64-v2, because it was asked for (IMBREX_ISA)");
}

TEST(Dispatch, AnUnknownSetIsRefusedWithTheNamesThereAre) {
    auto const forced = choose<kernels>("avx9", with(instruction_set::amx, granted));
    EXPECT_FALSE(forced);
    EXPECT_EQ(forced.isa(), "none");
    EXPECT_EQ(forced.reason().view(),
              "imbrex: \"avx9\" was asked for (IMBREX_ISA) but this binary has code for x86-64-v2, x86-64-v3, amx; unset it or "
              "name one of these");
    EXPECT_FALSE(choose<kernels>("x86-64-v4", with(instruction_set::amx, granted)));    // runs here, but is not built
    EXPECT_FALSE(choose<kernels>(std::string(4000, 'x'), with(instruction_set::amx, granted)));
}

TEST(Dispatch, ASetThatDoesNotRunHereIsRefusedWithWhatIsMissing) {
    auto const forced = choose<kernels>("amx", with(instruction_set::avx512_bf16, granted));
    EXPECT_FALSE(forced);
    EXPECT_NE(forced.reason().view().find("lacks amx_tile"), std::string_view::npos) << forced.reason().c_str();
    auto const unpermitted = choose<kernels>("amx", with(instruction_set::amx, refused));
    EXPECT_FALSE(unpermitted);
    EXPECT_NE(unpermitted.reason().view().find("refuses"), std::string_view::npos) << unpermitted.reason().c_str();
}

TEST(Dispatch, AProcessorOlderThanAllSetsIsToldWhatItLacks) {
    auto const none = choose<kernels>("", machine{cpu_features{}, granted});
    EXPECT_FALSE(none);
    EXPECT_EQ(none.reason().view(),
              "imbrex: none of x86-64-v2, x86-64-v3, amx runs here; for x86-64-v2 the processor or the system lacks sse3; build "
              "for an older set too");
}

TEST(Dispatch, TheEnvironmentIsAskedWhereTheCallerDoesNotSay) {
    ASSERT_EQ(setenv("IMBREX_ISA", "x86-64-v9", 1), 0);
    EXPECT_EQ(imbrex::dispatch::forced_by_environment(), "x86-64-v9");
    EXPECT_FALSE(choose<kernels>());
    ASSERT_EQ(unsetenv("IMBREX_ISA"), 0);
    EXPECT_EQ(imbrex::dispatch::forced_by_environment(), "");
}

}    // namespace
