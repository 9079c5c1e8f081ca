// expect: imbrex: merge takes partial_state.out, lse. of each part
#include "imbrex/merge.hpp"

#ifdef IMBREX_EXPECT_FAIL
using part = imbrex::tensor_view<float const>;
#else
using part = imbrex::partial_state<float>;
#endif

imbrex::status call(std::span<part const> parts, imbrex::tensor_view<float> out) {
    return imbrex::merge(parts, out);
}
