// expect: imbrex: keys and values are passed together, as dense_kv\{k, v\}
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float const> k, imbrex::tensor_view<float const> v,
                    imbrex::tensor_view<float> out) {
#ifdef IMBREX_EXPECT_FAIL
    return imbrex::attention(q, k, v, out);
#else
    return imbrex::attention(q, imbrex::dense_kv{k, v}, out);
#endif
}
