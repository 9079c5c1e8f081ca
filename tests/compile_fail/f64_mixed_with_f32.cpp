// expect: imbrex: f64 goes only with f64; make query, key, value and output all double, or none of them
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
using output = float;
#else
using output = double;
#endif

imbrex::status call(imbrex::tensor_view<double const> q, imbrex::tensor_view<output> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out);
}
