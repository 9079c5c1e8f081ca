// The smallest complete call: 4 queries on 6 keys, two heads, each query sees the keys up to its own position.
#include <iostream>
#include <vector>

#include <imbrex/imbrex.hpp>

int main() {
    imbrex::shape4 const q_shape{.batch = 1, .tokens = 4, .heads = 2, .head_dim = 64};
    imbrex::shape4 const kv_shape{.batch = 1, .tokens = 6, .heads = 2, .head_dim = 64};
    std::vector<float> const q(512, 0.5f), k(768, 0.25f), v(768, 3.0f);    // 1 x 4 x 2 x 64 and 1 x 6 x 2 x 64 floats
    std::vector<float> out(512);

    imbrex::dense_kv const kv{imbrex::bshd(k.data(), kv_shape), imbrex::bshd(v.data(), kv_shape)};
    imbrex::status const s = imbrex::attention(imbrex::bshd(q.data(), q_shape), kv, imbrex::bshd(out.data(), q_shape),
                                               imbrex::causal{imbrex::align::bottom_right}, {.workspace = imbrex::allocate{}});
    if (!s) {
        std::cerr << s.message().view() << '\n';
        return 1;
    }
    std::cout << "out[0] = " << out[0] << " (a mean of values that are all 3)\n";
}
