// expect: imbrex: append needs to know where new tokens go: append\(k, v, to_k, to_v, \{.first = lengths\}, slots\)
#include "imbrex/kv/append.hpp"

imbrex::status f(imbrex::tensor_view<float const> k, imbrex::encoded_rows<float> cache, imbrex::append_options const& o) {
#ifdef IMBREX_EXPECT_FAIL
    return imbrex::append(k, k, cache, cache, o);
#else
    return imbrex::append(k, k, cache, cache, o, imbrex::ring_slots{});
#endif
}
