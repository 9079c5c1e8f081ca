// expect: imbrex: nothing says where this table comes from; put IMBREX_DISPATCHED
#include "imbrex/dispatch.hpp"

struct kernels {
    void (*run)();
};
#ifndef IMBREX_EXPECT_FAIL
IMBREX_DISPATCHED(kernels)
#endif

bool call() {
    return static_cast<bool>(imbrex::dispatch::choose<kernels>());
}
