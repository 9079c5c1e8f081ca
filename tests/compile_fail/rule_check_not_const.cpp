// expect: imbrex: the rule's check must be const, take a call_shape and return an imbrex::status
#include "imbrex/imbrex.hpp"

struct everything : imbrex::full {
#ifdef IMBREX_EXPECT_FAIL
    imbrex::status check(imbrex::call_shape const&) { return {}; }
#else
    imbrex::status check(imbrex::call_shape const&) const { return {}; }
#endif
};

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, everything{});
}
