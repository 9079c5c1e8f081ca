// expect: imbrex: a lambda is no rule by itself; wrap it in mask_fn
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    auto const keep = [](auto const&, auto const& at, auto const& kv) { return kv <= at; };
#ifdef IMBREX_EXPECT_FAIL
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, keep);
#else
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::mask_fn{keep});
#endif
}
