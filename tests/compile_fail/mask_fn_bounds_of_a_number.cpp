// expect: imbrex: mask_fn's bounds must be callable as bounds\(ctx, q_first, q_last\) and return an imbrex::kv_range
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
constexpr auto bounds = [](imbrex::head_context const&, imbrex::position, imbrex::position q_last) { return q_last; };
#else
constexpr auto bounds = [](imbrex::head_context const&, imbrex::position, imbrex::position q_last) { return imbrex::kv_range{0, q_last + 1}; };
#endif

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::mask_fn{[](auto const&, auto const& q, auto const& kv) { return kv <= q; }, imbrex::always_partial{}, bounds});
}
