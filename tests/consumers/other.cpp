// The second translation unit: what it includes has to link beside main.cpp's copy.
#include <imbrex/imbrex.hpp>

#include <vector>

bool other_file_agrees() {
    std::vector<float> one(16, 1.f), out(16);
    imbrex::tensor_view<float const> const view = imbrex::bhsd(one.data(), imbrex::shape4{1, 1, 1, 16});
    imbrex::status const s = imbrex::attention(view, imbrex::dense_kv{view, view}, imbrex::bhsd(out.data(), view.shape),
                                               imbrex::full{}, {.workspace = imbrex::allocate{}});
    return s.ok() && out[0] == 1.f && out[15] == 1.f;
}
