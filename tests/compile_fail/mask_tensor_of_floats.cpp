// expect: imbrex: a mask tensor holds bool or std::uint8_t, 0 where a query may not see a key; other numbers are a bias
#include "imbrex/imbrex.hpp"

#ifdef IMBREX_EXPECT_FAIL
using entry = float;
#else
using entry = bool;
#endif

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::mask_tensor{imbrex::score_matrix(static_cast<entry const*>(nullptr), {})});
}
