// expect: imbrex: tensors hold .* say which with as_f16\(p\) or as_bf16\(p\)
#include "imbrex/imbrex.hpp"

imbrex::status call(std::uint16_t const* q, std::uint16_t* out, imbrex::shape4 shape) {
#ifdef IMBREX_EXPECT_FAIL
    auto const q_view = imbrex::bshd(q, shape);
#else
    auto const q_view = imbrex::bshd(imbrex::as_bf16(q), shape);
#endif
    return imbrex::attention(q_view, imbrex::dense_kv{q_view, q_view}, imbrex::bshd(imbrex::as_bf16(out), shape));
}
