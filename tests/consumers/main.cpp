// A consumer's whole program, in two files, so that the library is included in two translation units of one binary.
#include <imbrex/imbrex.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

bool other_file_agrees();

// All values are 1, so every output is 1, whatever the scores.
int main() {
    imbrex::shape4 const q_shape{.batch = 1, .tokens = 33, .heads = 4, .head_dim = 40};
    imbrex::shape4 const kv_shape{.batch = 1, .tokens = 70, .heads = 2, .head_dim = 40};
    std::vector<float> q(33 * 4 * 40), k(70 * 2 * 40), v(70 * 2 * 40, 1.f), out(q.size());
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = std::cos(static_cast<float>(i));

    imbrex::status const s = imbrex::attention(imbrex::bshd<float const>(q.data(), q_shape),
                                               imbrex::dense_kv{imbrex::bshd<float const>(k.data(), kv_shape),
                                                                imbrex::bshd<float const>(v.data(), kv_shape)},
                                               imbrex::bshd(out.data(), q_shape), imbrex::causal{imbrex::align::bottom_right},
                                               {.workspace = imbrex::allocate{}});
    if (!s) {
        std::puts(s.message().c_str());
        return 1;
    }
    for (float const value : out) {
        if (!(std::fabs(value - 1.f) < 1e-5f)) return 1;
    }
    return other_file_agrees() ? 0 : 1;
}
