// expect: imbrex: the rule comes before the options; pass full..
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    imbrex::dense_kv const kv{q, q};
#ifdef IMBREX_EXPECT_FAIL
    return imbrex::attention(q, kv, out, {.workspace = imbrex::allocate{}});
#else
    return imbrex::attention(q, kv, out, imbrex::full{}, {.workspace = imbrex::allocate{}});
#endif
}
