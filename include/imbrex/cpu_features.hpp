// What the processor has and the operating system saves, and which instruction sets a binary may have code for.
// CPUID and XCR0: Intel SDM vol. 1 ch. 13-14 and vol. 2 CPUID; x86-64-v2, v3 and v4: the x86-64 psABI, table 3.1.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "imbrex/config.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace imbrex {

enum class cpu_feature : std::uint8_t {
    sse3,
    ssse3,
    sse41,
    sse42,
    popcnt,
    cx16,
    lahf,
    avx,
    f16c,
    fma,
    movbe,
    lzcnt,
    avx2,
    bmi1,
    bmi2,
    avx512f,
    avx512cd,
    avx512dq,
    avx512bw,
    avx512vl,
    avx512vnni,
    avx512bf16,
    avx512vbmi,
    avx512fp16,
    avxvnni,
    amx_tile,
    amx_bf16,
    amx_int8,
};

// What CPUID and XGETBV answer; zero where there is no such leaf.
struct cpuid_answers {
    std::uint32_t leaf1_ecx = 0;
    std::uint32_t leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0;
    std::uint32_t leaf7_1_eax = 0;
    std::uint32_t extended_ecx = 0;    // leaf 0x80000001
    std::uint64_t xcr0 = 0;            // register files that the system saves
};

namespace cpu_detail {

inline constexpr std::uint64_t any_state = 0, ymm_state = 0x6, zmm_state = 0xe6, tile_state = 0x60000;

struct feature_row {
    std::string_view name;
    std::uint32_t cpuid_answers::*word;
    int bit;
    std::uint64_t state;    // bits of XCR0 that have to be set besides
};

// In the order of cpu_feature.
inline constexpr feature_row features[] = {
    {"sse3", &cpuid_answers::leaf1_ecx, 0, any_state},         {"ssse3", &cpuid_answers::leaf1_ecx, 9, any_state},
    {"sse4.1", &cpuid_answers::leaf1_ecx, 19, any_state},      {"sse4.2", &cpuid_answers::leaf1_ecx, 20, any_state},
    {"popcnt", &cpuid_answers::leaf1_ecx, 23, any_state},      {"cmpxchg16b", &cpuid_answers::leaf1_ecx, 13, any_state},
    {"lahf", &cpuid_answers::extended_ecx, 0, any_state},      {"avx", &cpuid_answers::leaf1_ecx, 28, ymm_state},
    {"f16c", &cpuid_answers::leaf1_ecx, 29, ymm_state},        {"fma", &cpuid_answers::leaf1_ecx, 12, ymm_state},
    {"movbe", &cpuid_answers::leaf1_ecx, 22, any_state},       {"lzcnt", &cpuid_answers::extended_ecx, 5, any_state},
    {"avx2", &cpuid_answers::leaf7_ebx, 5, ymm_state},         {"bmi1", &cpuid_answers::leaf7_ebx, 3, any_state},
    {"bmi2", &cpuid_answers::leaf7_ebx, 8, any_state},         {"avx512f", &cpuid_answers::leaf7_ebx, 16, zmm_state},
    {"avx512cd", &cpuid_answers::leaf7_ebx, 28, zmm_state},    {"avx512dq", &cpuid_answers::leaf7_ebx, 17, zmm_state},
    {"avx512bw", &cpuid_answers::leaf7_ebx, 30, zmm_state},    {"avx512vl", &cpuid_answers::leaf7_ebx, 31, zmm_state},
    {"avx512_vnni", &cpuid_answers::leaf7_ecx, 11, zmm_state}, {"avx512_bf16", &cpuid_answers::leaf7_1_eax, 5, zmm_state},
    {"avx512_vbmi", &cpuid_answers::leaf7_ecx, 1, zmm_state},  {"avx512_fp16", &cpuid_answers::leaf7_edx, 23, zmm_state},
    {"avx_vnni", &cpuid_answers::leaf7_1_eax, 4, ymm_state},   {"amx_tile", &cpuid_answers::leaf7_edx, 24, tile_state},
    {"amx_bf16", &cpuid_answers::leaf7_edx, 22, tile_state},   {"amx_int8", &cpuid_answers::leaf7_edx, 25, tile_state},
};
inline constexpr int feature_count = static_cast<int>(std::size(features));

}    // namespace cpu_detail

constexpr std::string_view name_of(cpu_feature f) noexcept { return cpu_detail::features[static_cast<int>(f)].name; }

// A set of features.
class cpu_features {
public:
    constexpr cpu_features() noexcept = default;
    template <class... F>
    constexpr explicit cpu_features(cpu_feature first, F... rest) noexcept : bits_{(bit(first) | ... | bit(rest))} {}

    constexpr bool has(cpu_feature f) const noexcept { return (bits_ & bit(f)) != 0; }
    constexpr bool has(cpu_features all) const noexcept { return (all.bits_ & ~bits_) == 0; }
    constexpr void add(cpu_feature f) noexcept { bits_ |= bit(f); }
    // The first of `wanted` that is not here.
    constexpr std::optional<cpu_feature> first_lacking(cpu_features wanted) const noexcept {
        for (int i = 0; i < cpu_detail::feature_count; ++i) {
            auto const f = static_cast<cpu_feature>(i);
            if (wanted.has(f) && !has(f)) return f;
        }
        return std::nullopt;
    }
    friend constexpr cpu_features operator|(cpu_features a, cpu_features b) noexcept {
        cpu_features both;
        both.bits_ = a.bits_ | b.bits_;
        return both;
    }
    friend constexpr bool operator==(cpu_features, cpu_features) = default;

    // Features that the processor has and whose registers the system saves.
    static constexpr cpu_features of(cpuid_answers const& a) noexcept {
        cpu_features all;
        for (int i = 0; i < cpu_detail::feature_count; ++i) {
            cpu_detail::feature_row const& row = cpu_detail::features[i];
            if ((a.*row.word >> row.bit & 1) != 0 && (a.xcr0 & row.state) == row.state) all.add(static_cast<cpu_feature>(i));
        }
        return all;
    }

private:
    static constexpr std::uint64_t bit(cpu_feature f) noexcept { return std::uint64_t{1} << static_cast<int>(f); }
    std::uint64_t bits_ = 0;
};

// Instruction sets that a binary may have code for, each of one family better than those before it.
enum class instruction_set : std::uint8_t { x86_64, x86_64_v2, x86_64_v3, x86_64_v4, avx512_vnni, avx512_bf16, amx, neon64 };

namespace cpu_detail {

using enum cpu_feature;
inline constexpr cpu_features v2{sse3, ssse3, sse41, sse42, popcnt, cx16, lahf};
inline constexpr cpu_features v3 = v2 | cpu_features{avx, f16c, fma, movbe, lzcnt, avx2, bmi1, bmi2};
inline constexpr cpu_features v4 = v3 | cpu_features{avx512f, avx512cd, avx512dq, avx512bw, avx512vl};
inline constexpr cpu_features v4_vnni = v4 | cpu_features{avx512vnni};
inline constexpr cpu_features v4_bf16 = v4_vnni | cpu_features{avx512bf16, avx512vbmi};
inline constexpr cpu_features v4_amx = v4_bf16 | cpu_features{amx_tile, amx_bf16, amx_int8};

// In the order of instruction_set. cmake/imbrex_dispatch.cmake has the compiler's flags for each.
struct set_row {
    std::string_view name;
    std::string_view tag;    // isa.hpp's, of code that is compiled for just this
    cpu_features needs;
};
inline constexpr set_row sets[] = {
    {"x86-64", "sse2", {}},
    {"x86-64-v2", "sse42", v2},
    {"x86-64-v3", "avx2_fma_f16c", v3},
    {"x86-64-v4", "avx512_fma_f16c", v4},
    {"avx512_vnni", "avx512_fma_f16c_vnni", v4_vnni},
    {"avx512_bf16", "avx512_fma_f16c_bf16_vnni_vbmi", v4_bf16},    // Zen 4, Sapphire Rapids and later
    {"amx", "avx512_fma_f16c_bf16_vnni_vbmi_amx", v4_amx},
    {"neon64", "neon64_fma", {}},
};
inline constexpr int set_count = static_cast<int>(std::size(sets));

}    // namespace cpu_detail

// As imbrex_add_dispatch() and IMBREX_ISA spell it.
constexpr std::string_view name_of(instruction_set s) noexcept { return cpu_detail::sets[static_cast<int>(s)].name; }
constexpr cpu_features features_of(instruction_set s) noexcept { return cpu_detail::sets[static_cast<int>(s)].needs; }
constexpr std::string_view tag_of(instruction_set s) noexcept { return cpu_detail::sets[static_cast<int>(s)].tag; }

#ifdef __x86_64__
// Asks the processor; some hundred cycles each, or tens of thousands in a virtual machine, which traps CPUID.
inline cpuid_answers ask_cpuid() noexcept {
    cpuid_answers a;
    std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return a;
    a.leaf1_ecx = ecx;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
        a.leaf7_ebx = ebx, a.leaf7_ecx = ecx, a.leaf7_edx = edx;
        if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) a.leaf7_1_eax = eax;
    }
    if (__get_cpuid(0x80000001U, &eax, &ebx, &ecx, &edx) != 0) a.extended_ecx = ecx;
    constexpr std::uint32_t osxsave = std::uint32_t{1} << 27;
    if ((a.leaf1_ecx & osxsave) != 0) {
        __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));    // the intrinsic asks for -mxsave
        a.xcr0 = std::uint64_t{edx} << 32 | eax;
    }
    return a;
}
inline cpu_features features_here() noexcept { return cpu_features::of(ask_cpuid()); }
#else
inline cpu_features features_here() noexcept { return {}; }
#endif

// Asks the system to let this process use AMX's tiles: once for all its threads, and as often as one likes. Refused where the
// system knows no AMX, or a thread has too small an alternate signal stack (Linux, Documentation/arch/x86/xstate.rst).
inline bool ask_for_amx() noexcept {
#if defined(__x86_64__) && defined(__linux__)
    constexpr long request_permission = 0x1023, tile_data = 18;
    return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

}    // namespace imbrex
