// expect: imbrex: int8 and int4 keys and values need their scales; pass scaled_kv
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<std::int8_t const> k,
                    imbrex::tensor_view<float const> scales, imbrex::tensor_view<float> out) {
#ifdef IMBREX_EXPECT_FAIL
    static_cast<void>(scales);
    imbrex::dense_kv const kv{k, k};
#else
    imbrex::scaled_kv const kv{imbrex::dense_kv{k, k}, scales, scales};
#endif
    return imbrex::attention(q, kv, out);
}
