// expect: imbrex: the rule comes before the options; pass full..
#include "imbrex/imbrex.hpp"

imbrex::status call(imbrex::plan const& plan, imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out,
                    imbrex::options const& o) {
    imbrex::dense_kv const kv{q, q};
#ifdef IMBREX_EXPECT_FAIL
    return imbrex::attention(plan, q, kv, out, o);
#else
    return imbrex::attention(plan, q, kv, out, imbrex::full{}, o);
#endif
}
