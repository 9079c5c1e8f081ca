// The tile unit for bf16 (AMX-TILE, AMX-BF16): eight tiles of 16 rows x 64 bytes, which a kernel lets a process use if it asks.
// Decision: asm rather than the compilers' intrinsics. Those of g++ 12 do not say that a load reads memory, so that stores to
// what it loads may sink below it, say that a configuration is 8 bytes where it is 64, and take tiles as literals only.
#pragma once

#include "imbrex/simd/amx_emulated.hpp"

#if defined(__linux__) && ((defined(__AMX_TILE__) && defined(__AMX_BF16__)) || (defined(__AMXTILE__) && defined(__AMXBF16__)))
#define IMBREX_HAS_AMX_BF16 1
#endif

#if defined(IMBREX_HAS_AMX_BF16)

#include "imbrex/cpu_features.hpp"

IMBREX_ISA_BEGIN

enum class amx_answer { granted, lacking, refused };

// Whether this process may use tiles, asked once: what is granted stays so. (A local constant; asking the processor and the
// kernel takes microseconds in a virtual machine, which each call that plans for itself would pay.)
inline amx_answer amx_permission() noexcept {
    static amx_answer const answer = [] {
        if (!features_here().has(cpu_features{cpu_feature::amx_tile, cpu_feature::amx_bf16})) return amx_answer::lacking;
        return ask_for_amx() ? amx_answer::granted : amx_answer::refused;
    }();
    return answer;
}

// Tiles, configured while it lives, on its thread: a task makes one and drops it before it ends.
class amx_tiles {
public:
    static constexpr std::string_view note = ", on AMX tiles", note_of_limbs = ", on AMX tiles as sums of two bf16";
    // Why this process cannot use them; empty: it can.
    static std::string_view refusal() noexcept {
        constexpr std::string_view reasons[] = {
            {},
            ", not on AMX tiles, which this processor lacks or the system does not save",
            ", not on AMX tiles, which the system refused to this process",
        };
        return reasons[static_cast<int>(amx_permission())];
    }

    amx_tiles() noexcept {
        alignas(64) configuration const all;
        asm volatile("ldtilecfg %0" : : "m"(all));
    }
    ~amx_tiles() { asm volatile("tilerelease"); }
    amx_tiles(amx_tiles const&) = delete;
    amx_tiles& operator=(amx_tiles const&) = delete;

    template <int T>
    IMBREX_ALWAYS_INLINE void load(void const* from, index row_bytes) noexcept {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(T) : "memory");
    }
    // The same of what need not stay in L1.
    template <int T>
    IMBREX_ALWAYS_INLINE void load_once(void const* from, index row_bytes) noexcept {
        asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(T) : "memory");
    }
    template <int T>
    IMBREX_ALWAYS_INLINE void store(void* to, index row_bytes) const noexcept {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row_bytes), "i"(T) : "memory");
    }
    template <int T>
    IMBREX_ALWAYS_INLINE void zero() noexcept {
        asm volatile("tilezero %%tmm%c0" : : "i"(T));
    }
    template <int C, int A, int B>
    IMBREX_ALWAYS_INLINE void dot_bf16() noexcept {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
    }

private:
    struct configuration {    // LDTILECFG's 64 bytes
        std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
        std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(configuration) == 64);
};

#if !defined(IMBREX_EMULATE_AMX)
using amx_tiles_here = amx_tiles;
#endif

IMBREX_ISA_END

#endif

#if defined(IMBREX_EMULATE_AMX)
IMBREX_ISA_BEGIN
using amx_tiles_here = emulated_tiles;
IMBREX_ISA_END
#endif
