// Prefill: many queries. Full and causal, the layouts, the awkward sizes, 16-bit storage, and the tiles from which tune.hpp was
// filled:
//     prefill --benchmark_filter=-^tiles     everything but them
//     prefill --benchmark_filter=^tiles      the tuner
#include <utility>

#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

// The same useful work, roughly, at every length: fewer heads where S is long. A head's speed does not depend on how many there
// are.
index heads_of(index tokens) { return tokens >= 4096 ? 2 : tokens >= 2048 ? 4 : 8; }

template <class T>
void add_full_and_causal(shape const& s, case_settings const& settings = {}) {
    add_case<T>("prefill", s, imbrex::full{}, settings);
    add_case<T>("prefill", s, causal_rule, settings);
}

template <index KvCols>
void add_tile(shape const& s) {
    constexpr index most_rows = imbrex::wide_geometry<float>::max_rows, lanes = imbrex::lane_count<float>;
    auto const add = [&]<index Rows>(std::integral_constant<index, Rows>) {
        using tiles = imbrex::fixed_tiles<imbrex::tile_shape{Rows, KvCols}>;
        case_settings const settings{.against = rivals::none, .budget_seconds = 0.3};
        std::string const suffix = "/tile" + std::to_string(Rows) + "x" + std::to_string(KvCols);
        add_case<float, imbrex::full, tiles>("tiles", s, imbrex::full{}, settings, suffix);
        add_case<float, imbrex::causal, tiles>("tiles", s, causal_rule, settings, suffix);
    };
    add(std::integral_constant<index, most_rows>{});
    if constexpr (most_rows >= 2 * lanes) add(std::integral_constant<index, most_rows / lanes / 2 * lanes>{});
}

void add_tiles() {
    for (index const head_dim : {64, 128}) {
        for (index const tokens : {512, 1024, 4096}) {
            shape const s = self_attention(2, tokens, head_dim);
            add_tile<32>(s);
            add_tile<64>(s);
            add_tile<96>(s);
            add_tile<128>(s);
            add_tile<192>(s);
            add_tile<256>(s);
            add_tile<384>(s);
            add_tile<512>(s);
        }
    }
}

void add_all() {
    for (index const head_dim : {index{64}, index{128}}) {
        for (index const tokens : {512, 1024, 2048, 4096})
            add_full_and_causal<float>(self_attention(heads_of(tokens), tokens, head_dim));
    }
    for (index const tokens : {1024, 2048}) {
        add_full_and_causal<float>(self_attention(32, tokens, 128, layout::bshd));
    }
    for (index const head_dim : {80, 96, 112, 192, 256, 32, 37, 63}) {
        add_case<float>("prefill", self_attention(8, 1024, head_dim), imbrex::full{});
    }
    for (index const tokens : {777, 65}) {
        for (index const head_dim : {64, 128}) add_full_and_causal<float>(self_attention(8, tokens, head_dim));
    }
    for (index const tokens : {1024, 2048}) {
        for (index const head_dim : {64, 128, 256}) add_full_and_causal<imbrex::bf16>(self_attention(4, tokens, head_dim));
        add_full_and_causal<imbrex::f16>(self_attention(4, tokens, 128));
    }
    add_tiles();
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
