// expect: imbrex: transform_fn takes f\(ctx, s, q, kv\) that returns the changed score, with auto parameters
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
#ifdef IMBREX_EXPECT_FAIL
    auto const twice = [](auto const& s) { return s + s; };
#else
    auto const twice = [](auto const&, auto const& s, auto const&, auto const&) { return s + s; };
#endif
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::transform_fn(twice));
}
