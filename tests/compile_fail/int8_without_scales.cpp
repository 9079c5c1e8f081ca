// expect: imbrex: int8 and int4 keys and values need their scales
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, std::int8_t const* kv, imbrex::tensor_view<float> out) {
#ifdef IMBREX_EXPECT_FAIL
    auto const view = imbrex::bshd(kv, q.shape);
#else
    auto const view = imbrex::bshd(reinterpret_cast<imbrex::f8_e4m3 const*>(kv), q.shape);
#endif
    return imbrex::attention(q, imbrex::dense_kv{view, view}, out);
}
