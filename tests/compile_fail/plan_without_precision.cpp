// expect: imbrex: a plan is for a precision; say make_plan<precision<Q, K, V, O>>
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::problem const& shape, imbrex::plan& plan) {
#ifdef IMBREX_EXPECT_FAIL
    return imbrex::make_plan(shape, plan);
#else
    return imbrex::make_plan<imbrex::precision<float>>(shape, plan);
#endif
}
