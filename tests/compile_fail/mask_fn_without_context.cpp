// expect: imbrex: mask_fn's keep must be callable as keep\(ctx, q, kv\) and say as a bool
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
constexpr auto keep = [](auto const& q, auto const& kv) { return kv <= q; };
#else
constexpr auto keep = [](auto const&, auto const& q, auto const& kv) { return kv <= q; };
#endif

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::mask_fn{keep});
}
