// What CPUID and XCR0 say, read from made-up answers and from this processor's.
#include "imbrex/cpu_features.hpp"

#include <gtest/gtest.h>

namespace {

using imbrex::cpu_feature;
using imbrex::cpu_features;
using imbrex::cpuid_answers;
using imbrex::features_of;
using imbrex::instruction_set;

// Bits by their numbers in the manual, so that the table is not its own judge.
constexpr std::uint32_t bits(std::initializer_list<int> numbers) {
    std::uint32_t word = 0;
    for (int const n : numbers) word |= std::uint32_t{1} << n;
    return word;
}

// A server processor with AMX under a system that saves everything.
cpuid_answers everything() {
    return {.leaf1_ecx = bits({0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29}),
            .leaf7_ebx = bits({3, 5, 8, 16, 17, 28, 30, 31}),
            .leaf7_ecx = bits({1, 11}),
            .leaf7_edx = bits({22, 24, 25}),
            .leaf7_1_eax = bits({5}),
            .extended_ecx = bits({0, 5}),
            .xcr0 = bits({0, 1, 2, 5, 6, 7, 17, 18})};
}

TEST(CpuFeatures, AProcessorWithEverythingHasEverySet) {
    cpu_features const f = cpu_features::of(everything());
    for (instruction_set const s :
         {instruction_set::x86_64, instruction_set::x86_64_v2, instruction_set::x86_64_v3, instruction_set::x86_64_v4,
          instruction_set::avx512_vnni, instruction_set::avx512_bf16, instruction_set::amx}) {
        EXPECT_TRUE(f.has(features_of(s))) << imbrex::name_of(s);
    }
    EXPECT_FALSE(f.has(cpu_feature::avx512fp16));
}

TEST(CpuFeatures, RegistersThatTheSystemDoesNotSaveAreNotThere) {
    cpuid_answers a = everything();
    a.xcr0 = bits({0, 1, 2, 5, 6, 7});
    EXPECT_TRUE(cpu_features::of(a).has(features_of(instruction_set::avx512_bf16)));
    EXPECT_FALSE(cpu_features::of(a).has(cpu_feature::amx_tile));
    a.xcr0 = bits({0, 1, 2, 5, 6});    // zmm16 to zmm31 are not saved
    EXPECT_TRUE(cpu_features::of(a).has(features_of(instruction_set::x86_64_v3)));
    EXPECT_FALSE(cpu_features::of(a).has(cpu_feature::avx512f));
    a.xcr0 = bits({0, 1});
    EXPECT_TRUE(cpu_features::of(a).has(features_of(instruction_set::x86_64_v2)));
    EXPECT_FALSE(cpu_features::of(a).has(cpu_feature::avx));
    EXPECT_FALSE(cpu_features::of(a).has(cpu_feature::fma));
}

TEST(CpuFeatures, OneMissingFeatureIsNamed) {
    cpuid_answers a = everything();
    a.leaf1_ecx &= ~bits({12});
    auto const lacking = cpu_features::of(a).first_lacking(features_of(instruction_set::x86_64_v4));
    ASSERT_TRUE(lacking.has_value());
    EXPECT_EQ(imbrex::name_of(*lacking), "fma");
    EXPECT_FALSE(cpu_features::of(everything()).first_lacking(features_of(instruction_set::amx)).has_value());
}

TEST(CpuFeatures, EachSetNeedsAllOfThoseBeforeIt) {
    for (int i = 1; i <= static_cast<int>(instruction_set::amx); ++i) {
        auto const before = static_cast<instruction_set>(i - 1), set = static_cast<instruction_set>(i);
        EXPECT_TRUE(features_of(set).has(features_of(before))) << imbrex::name_of(set);
        EXPECT_FALSE(features_of(before).has(features_of(set))) << imbrex::name_of(set);
    }
}

#ifdef __x86_64__
TEST(CpuFeatures, ThisProcessorsAreThoseThatTheCompilersRuntimeSees) {
    cpu_features const f = imbrex::features_here();
    EXPECT_EQ(f.has(cpu_feature::ssse3), __builtin_cpu_supports("ssse3") != 0);
    EXPECT_EQ(f.has(cpu_feature::sse42), __builtin_cpu_supports("sse4.2") != 0);
    EXPECT_EQ(f.has(cpu_feature::popcnt), __builtin_cpu_supports("popcnt") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx), __builtin_cpu_supports("avx") != 0);
    EXPECT_EQ(f.has(cpu_feature::fma), __builtin_cpu_supports("fma") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx2), __builtin_cpu_supports("avx2") != 0);
    EXPECT_EQ(f.has(cpu_feature::bmi2), __builtin_cpu_supports("bmi2") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx512f), __builtin_cpu_supports("avx512f") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx512bw), __builtin_cpu_supports("avx512bw") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx512vl), __builtin_cpu_supports("avx512vl") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx512vnni), __builtin_cpu_supports("avx512vnni") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx512vbmi), __builtin_cpu_supports("avx512vbmi") != 0);
    EXPECT_EQ(f.has(cpu_feature::avx512bf16), __builtin_cpu_supports("avx512bf16") != 0);
}
#endif

TEST(CpuFeatures, WithoutAmxThereIsNoPermissionForIt) {
    if (imbrex::features_here().has(cpu_feature::amx_tile)) {
        EXPECT_EQ(imbrex::ask_for_amx(), imbrex::ask_for_amx());    // asking again changes nothing
    } else {
        EXPECT_FALSE(imbrex::ask_for_amx());
    }
}

}    // namespace
