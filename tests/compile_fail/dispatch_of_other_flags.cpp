// expect: imbrex: this source is not compiled for just the instruction set that its name says
#include "imbrex/dispatch.hpp"

#ifdef IMBREX_EXPECT_FAIL
#define IMBREX_DISPATCH_SET amx
#elif defined(__aarch64__)
#define IMBREX_DISPATCH_SET neon64
#elif defined(__AVX512F__)
#define IMBREX_DISPATCH_SET x86_64_v4
#elif defined(__AVX2__)
#define IMBREX_DISPATCH_SET x86_64_v3
#else
#define IMBREX_DISPATCH_SET x86_64
#endif

struct kernels {
    int (*add)(int, int);
};
IMBREX_DISPATCHED(kernels)
IMBREX_DISPATCH_TABLE(kernels, {[](int a, int b) { return a + b; }})
