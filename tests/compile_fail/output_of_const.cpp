// expect: imbrex: the output view is of const elements; pass a view of writable ones
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
using output = float const;
#else
using output = float;
#endif

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<output> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out);
}
