// expect: (cannot bind non-const lvalue reference of type .two_workers|no matching .*executor_ref)
#include "imbrex/imbrex.hpp"

struct two_workers {
    void run(imbrex::index n, imbrex::task_ref task) const {
        for (imbrex::index i = 0; i < n; ++i) task(i);
    }
    imbrex::index max_workers() const { return 2; }
};

#ifdef IMBREX_EXPECT_FAIL
imbrex::executor_ref const executor{two_workers{}};    // would refer to an object that is gone
#else
two_workers const crew;
imbrex::executor_ref const executor{crew};
#endif
