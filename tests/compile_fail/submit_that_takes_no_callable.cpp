// expect: imbrex: submit must take a copyable callable without arguments; wrap your pool's function
#include "imbrex/executors/submit.hpp"

#include <functional>

struct pool {
    void enqueue(std::function<void()> job) { job(); }
};

void use(pool& p) {
#ifdef IMBREX_EXPECT_FAIL
    imbrex::submit_executor executor{[](int) {}, 8};
    static_cast<void>(p);
#else
    imbrex::submit_executor executor{[&](auto job) { p.enqueue(job); }, 8};
#endif
    static_cast<void>(executor.max_workers());
}
