// expect: imbrex: the rule lacks kv_bounds\(head_context, q_first, q_last\); return kv_range\{0, ctx.kv_len\} if unsure
#include "imbrex/imbrex.hpp"

struct everything {
    template <class Q, class K>
    auto keep(imbrex::head_context const&, Q const& q, K const& kv) const {
        return (q == q) | (kv == kv);
    }
    imbrex::coverage classify(imbrex::head_context const&, imbrex::tile_window const&) const { return imbrex::coverage::full; }
#ifndef IMBREX_EXPECT_FAIL
    imbrex::kv_range kv_bounds(imbrex::head_context const& ctx, imbrex::position, imbrex::position) const { return {0, ctx.kv_len}; }
#endif
};

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, everything{});
}
