// The kernels that the attention tests run, compiled once in instances/*.cpp and not in every test.
#pragma once

#include "imbrex/imbrex.hpp"

// Of calls that are dense or packed.
#define IMBREX_TEST_KERNEL(How, Rule, ...)                                                                                       \
    How template imbrex::status imbrex::call_detail::checked_call(                                                               \
        imbrex::plan const&, imbrex::call_detail::operands<imbrex::precision<__VA_ARGS__>> const&, Rule const&, imbrex::options const&, \
        imbrex::observer_ref);
#define IMBREX_TEST_KERNELS(How, Q, K, V, O)               \
    IMBREX_TEST_KERNEL(How, imbrex::full, Q, K, V, O)      \
    IMBREX_TEST_KERNEL(How, imbrex::causal, Q, K, V, O)

#define IMBREX_TEST_KERNELS_32_64(How)                 \
    IMBREX_TEST_KERNELS(How, float, float, float, float) \
    IMBREX_TEST_KERNELS(How, double, double, double, double)
#define IMBREX_TEST_KERNELS_16(How)                                                \
    IMBREX_TEST_KERNELS(How, imbrex::f16, imbrex::f16, imbrex::f16, imbrex::f16)     \
    IMBREX_TEST_KERNELS(How, imbrex::bf16, imbrex::bf16, imbrex::bf16, imbrex::bf16)
#define IMBREX_TEST_KERNELS_F32_ON_BF16(How)                                 \
    IMBREX_TEST_KERNELS(How, float, imbrex::bf16, imbrex::bf16, float)         \
    IMBREX_TEST_KERNELS(How, float, imbrex::bf16, imbrex::bf16, imbrex::bf16)  \
    IMBREX_TEST_KERNELS(How, float, imbrex::bf16, imbrex::bf16, imbrex::f16)
#define IMBREX_TEST_KERNELS_KEYS_UNLIKE_VALUES(How)                              \
    IMBREX_TEST_KERNELS(How, imbrex::bf16, imbrex::bf16, imbrex::f16, imbrex::bf16) \
    IMBREX_TEST_KERNELS(How, float, imbrex::f16, float, float)                     \
    IMBREX_TEST_KERNELS(How, imbrex::f16, float, imbrex::bf16, imbrex::f16)

IMBREX_TEST_KERNELS_32_64(extern)
IMBREX_TEST_KERNELS_16(extern)
IMBREX_TEST_KERNELS_F32_ON_BF16(extern)
IMBREX_TEST_KERNELS_KEYS_UNLIKE_VALUES(extern)
