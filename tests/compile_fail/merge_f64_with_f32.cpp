// expect: imbrex: f64 parts merge into an f64 output, and others into others
#include "imbrex/merge.hpp"

#ifdef IMBREX_EXPECT_FAIL
using part = double;
using merged = float;
#else
using part = double;
using merged = double;
#endif

imbrex::status call(imbrex::partial_state<part> const& a, imbrex::partial_state<part> const& b, imbrex::tensor_view<merged> out) {
    return imbrex::merge(a, b, out);
}
