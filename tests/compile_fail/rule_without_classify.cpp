// expect: imbrex: the rule lacks classify\(head_context, tile_window\); return coverage::partial if unsure
#include "imbrex/imbrex.hpp"

struct every_other_key {
    template <class Q, class K>
    auto keep(imbrex::head_context const&, Q const& q, K const& kv) const {
        return ((q - kv) & 1) == 0;
    }
#ifndef IMBREX_EXPECT_FAIL
    imbrex::coverage classify(imbrex::head_context const&, imbrex::tile_window const&) const { return imbrex::coverage::partial; }
#endif
    imbrex::kv_range kv_bounds(imbrex::head_context const& ctx, imbrex::position, imbrex::position) const {
        return {0, ctx.kv_len};
    }
};

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, every_other_key{});
}
