// expect: batch_bool
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    imbrex::mask_fn const rule{[](auto const&, auto const& i, auto const& j) {
#ifdef IMBREX_EXPECT_FAIL
        return i < 21 ? j <= i : j < 3;
#else
        return imbrex::mask_and(j <= i, j < 21);
#endif
    }};
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, rule);
}
