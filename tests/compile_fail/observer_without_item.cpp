// expect: imbrex: the observer lacks item\(tile_counts const&\)
#include "imbrex/imbrex.hpp"

struct watcher {
#ifndef IMBREX_EXPECT_FAIL
    void item(imbrex::tile_counts const&) {}
#endif
};

imbrex::status call(imbrex::tensor_view<float const> q, imbrex::tensor_view<float> out, watcher& w) {
    return imbrex::attention(q, imbrex::dense_kv{q, q}, out, imbrex::full{}, {}, w);
}
