// expect: imbrex: the rule's kv_bounds must be const, take \(head_context, q_first, q_last\) and return a kv_range
#include <utility>

#include "imbrex/imbrex.hpp"

struct everything {
    template <class Ctx, class Q, class K>
    auto keep(Ctx const&, Q const& q, K const& kv) const {
        return kv - kv == q - q;
    }
    imbrex::coverage classify(imbrex::head_context const&, imbrex::tile_window const&) const { return imbrex::coverage::full; }
#ifdef IMBREX_EXPECT_FAIL
    using range = std::pair<int, int>;
#else
    using range = imbrex::kv_range;
#endif
    range kv_bounds(imbrex::head_context const& ctx, imbrex::position, imbrex::position) const { return {0, ctx.kv_len}; }
};

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, everything{});
}
