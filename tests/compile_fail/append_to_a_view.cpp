// expect: imbrex: wrap the cache in encoded_rows\{view\}
#include "imbrex/kv/append.hpp"

imbrex::status f(imbrex::tensor_view<float const> k, imbrex::tensor_view<float> cache, imbrex::append_options const& o) {
#ifdef IMBREX_EXPECT_FAIL
    return imbrex::append(k, k, cache, cache, o, imbrex::dense_slots{});
#else
    return imbrex::append(k, k, imbrex::encoded_rows{cache}, imbrex::encoded_rows{cache}, o, imbrex::dense_slots{});
#endif
}
