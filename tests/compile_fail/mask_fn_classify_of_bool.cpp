// expect: imbrex: mask_fn's classify must be callable as classify\(ctx, tile_window\) and return an imbrex::coverage
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
constexpr auto classify = [](imbrex::head_context const&, imbrex::tile_window const&) { return true; };
#else
constexpr auto classify = [](imbrex::head_context const&, imbrex::tile_window const&) { return imbrex::coverage::partial; };
#endif

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::mask_fn{[](auto const&, auto const& q, auto const& kv) { return kv <= q; }, classify});
}
