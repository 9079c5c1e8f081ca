// expect: imbrex: merge takes float, double, imbrex::f16, imbrex::bf16
#include "imbrex/merge.hpp"

#ifdef IMBREX_EXPECT_FAIL
using part = std::uint16_t;
using merged = float;
#else
using part = imbrex::bf16;
using merged = float;
#endif

imbrex::status call(imbrex::partial_state<part> const& a, imbrex::partial_state<part> const& b, imbrex::tensor_view<merged> out) {
    return imbrex::merge(a, b, out);
}
