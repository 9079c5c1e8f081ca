// expect: imbrex: tensors hold .* say which with as_f16\(p\) or as_bf16\(p\)
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, std::uint16_t const* kv, imbrex::tensor_view<float> out) {
#ifdef IMBREX_EXPECT_FAIL
    auto const view = imbrex::bshd(kv, q.shape);
#else
    auto const view = imbrex::bshd(imbrex::as_f16(kv), q.shape);
#endif
    return imbrex::attention(q, imbrex::dense_kv{view, view}, out);
}
