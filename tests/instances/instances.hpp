// The kernels that the attention tests run, compiled once in instances/*.cpp and not in every test.
#pragma once

#include "imbrex/imbrex.hpp"

#define IMBREX_TEST_KERNEL(How, Rule, Q, K, V, O)                                                                                     \
    How template imbrex::status imbrex::attention(imbrex::plan const&, imbrex::tensor_view<Q>, imbrex::dense_kv<K, V> const&,         \
                                                  imbrex::tensor_view<O>, Rule const&, imbrex::options const&);
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
