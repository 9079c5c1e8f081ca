// The ISA tag: an inline namespace named after every feature macro that compute code depends on, so that objects
// compiled with different -m flags never share a symbol of ours in one binary (a linker keeps one copy of each inline
// function, and would run AVX-512 code on a machine without it). Vocabulary types (views, status, options, plan) stay
// outside. std's and xsimd's own inlines need localising besides: see cmake/imbrex_isa_object.cmake.
#pragma once

#include "imbrex/config.hpp"

#if defined(__AVX512F__)
#if !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__) || !defined(__AVX512CD__) || !defined(__FMA__)
#error "imbrex: of AVX-512, F, BW, CD, DQ and VL go together; compile with -march=x86-64-v4 or newer, or without AVX-512"
#endif
#define IMBREX_HAS_AVX512 1
#define IMBREX_TAG_BASE avx512
#define IMBREX_BASE_NAME "avx512"
#elif defined(__AVX2__) && defined(__FMA__)
#define IMBREX_HAS_AVX2_FMA 1
#define IMBREX_TAG_BASE avx2
#define IMBREX_BASE_NAME "avx2"
#elif defined(__AVX2__)
#define IMBREX_TAG_BASE avx2_no
#define IMBREX_BASE_NAME "avx2 without fma"
#elif defined(__AVX__)
#define IMBREX_TAG_BASE avx
#define IMBREX_BASE_NAME "avx"
#elif defined(__SSE4_2__)
#define IMBREX_TAG_BASE sse42
#define IMBREX_BASE_NAME "sse4.2"
#elif defined(__SSE4_1__)
#define IMBREX_TAG_BASE sse41
#define IMBREX_BASE_NAME "sse4.1"
#elif defined(__SSSE3__)
#define IMBREX_TAG_BASE ssse3
#define IMBREX_BASE_NAME "ssse3"
#elif defined(__SSE3__)
#define IMBREX_TAG_BASE sse3
#define IMBREX_BASE_NAME "sse3"
#elif defined(__x86_64__)
#define IMBREX_TAG_BASE sse2
#define IMBREX_BASE_NAME "sse2"
#else
#define IMBREX_TAG_BASE neon64
#define IMBREX_BASE_NAME "neon64"
#endif

// The register class of a vector in an asm constraint.
#if defined(IMBREX_HAS_AVX512)
#define IMBREX_VECTOR_REGISTER "v"
#elif defined(__x86_64__)
#define IMBREX_VECTOR_REGISTER "x"
#else
#define IMBREX_VECTOR_REGISTER "w"
#endif

#ifdef __AVX512BF16__
#define IMBREX_TAG_BF16 _bf16
#define IMBREX_NAME_BF16 "+bf16"
#else
#define IMBREX_TAG_BF16
#define IMBREX_NAME_BF16 ""
#endif
#ifdef __AVX512FP16__
#define IMBREX_TAG_FP16 _fp16
#define IMBREX_NAME_FP16 "+fp16"
#else
#define IMBREX_TAG_FP16
#define IMBREX_NAME_FP16 ""
#endif
#if defined(__AVX512VNNI__)
#define IMBREX_TAG_VNNI _vnni
#define IMBREX_NAME_VNNI "+vnni"
#elif defined(__AVXVNNI__)
#define IMBREX_TAG_VNNI _avxvnni
#define IMBREX_NAME_VNNI "+avxvnni"
#else
#define IMBREX_TAG_VNNI
#define IMBREX_NAME_VNNI ""
#endif
#ifdef __AVX512VBMI__
#define IMBREX_TAG_VBMI _vbmi
#define IMBREX_NAME_VBMI "+vbmi"
#else
#define IMBREX_TAG_VBMI
#define IMBREX_NAME_VBMI ""
#endif
#ifdef __F16C__
#define IMBREX_TAG_F16C _f16c
#else
#define IMBREX_TAG_F16C
#endif
// Compiled for Intel's cores with AMX, which differ from others in what pays. (The second macro is clang++ 14's.)
#if defined(__AMX_TILE__) || defined(__AMXTILE__)
#define IMBREX_ON_AMX_CORES 1
#endif

#if defined(IMBREX_EMULATE_AMX)
#define IMBREX_TAG_AMX _amx_emulated
#define IMBREX_NAME_AMX "+amx emulated"
#elif defined(IMBREX_ON_AMX_CORES)
#define IMBREX_TAG_AMX _amx
#define IMBREX_NAME_AMX "+amx"
#else
#define IMBREX_TAG_AMX
#define IMBREX_NAME_AMX ""
#endif
#if defined(__FMA__) || defined(__aarch64__)
#define IMBREX_TAG_FMA _fma
#else
#define IMBREX_TAG_FMA
#endif

#define IMBREX_CAT8(a, b, c, d, e, f, g, h) a##b##c##d##e##f##g##h
#define IMBREX_TAG_EXPAND(a, b, c, d, e, f, g, h) IMBREX_CAT8(a, b, c, d, e, f, g, h)
#define IMBREX_TAG                                                                                                               \
    IMBREX_TAG_EXPAND(IMBREX_TAG_BASE, IMBREX_TAG_FMA, IMBREX_TAG_F16C, IMBREX_TAG_BF16, IMBREX_TAG_FP16, IMBREX_TAG_VNNI,       \
                      IMBREX_TAG_VBMI, IMBREX_TAG_AMX)

#define IMBREX_TEXT_OF(x) #x
#define IMBREX_TEXT(x) IMBREX_TEXT_OF(x)
#define IMBREX_TAG_TEXT IMBREX_TEXT(IMBREX_TAG)

// What plans and path_of call it, e.g. "avx512+bf16+vnni+vbmi": all that decides which units there are, so that a plan that was
// made for other units of the same binary is refused.
#define IMBREX_ISA_NAME IMBREX_BASE_NAME IMBREX_NAME_BF16 IMBREX_NAME_FP16 IMBREX_NAME_VNNI IMBREX_NAME_VBMI IMBREX_NAME_AMX

// Opens and closes namespace imbrex::<tag>; everything that computes stands between the two.
#define IMBREX_ISA_BEGIN                                                                                                         \
    namespace imbrex {                                                                                                           \
    inline namespace IMBREX_TAG {
#define IMBREX_ISA_END                                                                                                           \
    }                                                                                                                            \
    }
