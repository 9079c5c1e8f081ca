// expect: imbrex: the rule lacks keep\(ctx, q, kv\)
#include "imbrex/imbrex.hpp"

struct everything {
#ifndef IMBREX_EXPECT_FAIL
    template <class Q, class K>
    auto keep(imbrex::head_context const&, Q const& q, K const& kv) const {
        return (q == q) | (kv == kv);
    }
#endif
    imbrex::coverage classify(imbrex::head_context const&, imbrex::tile_window const&) const { return imbrex::coverage::full; }
    imbrex::kv_range kv_bounds(imbrex::head_context const& ctx, imbrex::position, imbrex::position) const {
        return {0, ctx.kv_len};
    }
};

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, everything{});
}
