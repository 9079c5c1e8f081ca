// Runs each set that is built and that this processor has. All values are 1, so every output is 1, whatever the scores.
//     consumer_dispatch [<how many sets have to run>]
#include "consumer_kernels.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
    imbrex::shape4 const shape{.batch = 1, .tokens = 40, .heads = 2, .head_dim = 24};
    std::vector<float> q(40 * 2 * 24), v(q.size(), 1.f);
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
    int run = 0;
    for (imbrex::dispatch::variant const& built : imbrex::dispatch::built<consumer_kernels>()) {
        auto const kernels = imbrex::dispatch::choose<consumer_kernels>(imbrex::name_of(built.set));
        std::puts(kernels.reason().c_str());
        if (!kernels) continue;
        std::vector<float> out(q.size());
        auto const view = imbrex::bshd<float const>(q.data(), shape);
        imbrex::status const s =
            kernels->attend(view, view, imbrex::bshd<float const>(v.data(), shape), imbrex::bshd(out.data(), shape));
        if (!s) return std::puts(s.message().c_str()), 1;
        for (float const x : out) {
            if (!(std::fabs(x - 1.f) < 1e-5f)) return 1;
        }
        ++run;
    }
    if (argc > 1 && run != std::atoi(argv[1])) return 1;
    return run > 0 && !imbrex::dispatch::choose<consumer_kernels>("none") ? 0 : 1;
}
