// One binary for many processors. Tells which instruction set was chosen and why, then runs the same call with each that is in
// the binary, and checks that they agree.
//     IMBREX_ISA=x86-64-v3 build/release/examples/dispatch/imbrex_dispatch
#include <cmath>
#include <cstdio>
#include <vector>

#include "attention_kernels.hpp"

namespace {

using example::attention_kernels;

struct tensors {
    imbrex::shape4 q_shape{.batch = 1, .tokens = 100, .heads = 8, .head_dim = 64};
    imbrex::shape4 kv_shape{.batch = 1, .tokens = 300, .heads = 2, .head_dim = 64};
    std::vector<float> q = waves(q_shape, 0.37f), k = waves(kv_shape, 0.73f), v = waves(kv_shape, 0.11f);

    static std::vector<float> waves(imbrex::shape4 shape, float step) {
        std::vector<float> values(static_cast<std::size_t>(shape.elements()));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(step * static_cast<float>(i));
        return values;
    }
};

// The output with one table's code; empty, and told, if the call is refused.
std::vector<float> run(attention_kernels const& kernels, tensors const& t) {
    std::vector<float> out(t.q.size());
    imbrex::tensor_view<float const> const q = imbrex::bshd(t.q.data(), t.q_shape);
    imbrex::dense_kv const kv{imbrex::bshd(t.k.data(), t.kv_shape), imbrex::bshd(t.v.data(), t.kv_shape)};
    imbrex::tensor_view<float> const result = imbrex::bshd(out.data(), t.q_shape);
    std::printf("    %s\n", kernels.path(q, kv, result).c_str());
    imbrex::status const s = kernels.attend(q, kv, result, {.workspace = imbrex::allocate{}});
    if (!s) std::puts(s.message().c_str());
    return s ? out : std::vector<float>{};
}

bool agree(std::vector<float> const& a, std::vector<float> const& b) {
    if (a.size() != b.size() || a.empty()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!(std::fabs(a[i] - b[i]) < 1e-5f)) return false;
    }
    return true;
}

}    // namespace

int main() {
    tensors const t;
    auto const chosen = imbrex::dispatch::choose<attention_kernels>();
    std::printf("%s\n", chosen.reason().c_str());
    if (!chosen) return 1;
    std::vector<float> const out = run(*chosen, t);

    for (imbrex::dispatch::variant const& variant : imbrex::dispatch::built<attention_kernels>()) {
        auto const forced = imbrex::dispatch::choose<attention_kernels>(imbrex::name_of(variant.set));
        std::printf("%s\n", forced.reason().c_str());
        if (forced && !agree(run(*forced, t), out)) {
            std::puts("this result is another");
            return 1;
        }
    }
}
