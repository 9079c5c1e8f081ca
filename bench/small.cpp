// Short sequences, where packing and set-up show: against Eigen, whose whole matrix of scores fits in cache here.
#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

void add_all() {
    for (index const head_dim : {64, 128}) {
        for (index const tokens : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256}) {
            shape const s = self_attention(8, tokens, head_dim);
            add_case<float>("small", s, imbrex::full{});
            if (head_dim == 64) add_case<float>("small", s, causal_rule);
        }
    }
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
