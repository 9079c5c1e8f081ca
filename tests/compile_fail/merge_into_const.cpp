// expect: imbrex: the merged output is of const elements; pass a view of writable ones
#include "imbrex/merge.hpp"

#ifdef IMBREX_EXPECT_FAIL
using part = float;
using merged = float const;
#else
using part = float;
using merged = float;
#endif

imbrex::status call(imbrex::partial_state<part> const& a, imbrex::partial_state<part> const& b, imbrex::tensor_view<merged> out) {
    return imbrex::merge(a, b, out);
}
