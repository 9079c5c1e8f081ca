// expect: imbrex: mask_fn's keep takes numbers only; make it generic
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
constexpr auto keep = [](imbrex::head_context const&, imbrex::position q, imbrex::position kv) { return kv <= q; };
#else
constexpr auto keep = [](imbrex::head_context const&, auto const& q, auto const& kv) { return kv <= q; };
#endif

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::mask_fn{keep});
}
