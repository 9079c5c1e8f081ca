// Decode: one query per sequence against a long kv cache, limited by the reading of K and V. The yardstick is the best read loop
// on the very same memory. Each case runs on 4 KB pages (huge_pages:0) and on huge ones (huge_pages:1). ^tiles is the tuner of
// the narrow unit's tiles.
#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

template <class T>
void add_decode(shape s) {
    s.q_tokens = 1;
    for (pages const page : {pages::small, pages::huge}) {
        s.page = page;
        add_case<T>("decode", s, imbrex::full{}, {.yardstick = limit::reads},
                    page == pages::huge ? "/huge_pages:1" : "/huge_pages:0");
    }
}

// The read loops by themselves, on 256 MB.
void add_read(named_read_loop const& loop, pages page) {
    std::string const name = "read/" + std::string(loop.name) + (page == pages::huge ? "/huge_pages:1" : "/huge_pages:0");
    add_benchmark(name, [=](benchmark::State& state) {
        constexpr index bytes = index{256} << 20;
        page_memory const memory{bytes, page};
        normal_numbers{5}.fill(reinterpret_cast<float*>(memory.data()), bytes / 4);
        contestant reader{.call = [&] { loop.run(memory.data(), bytes); }};
        race{}.run({&reader});
        case_figures f;
        f.seconds = median(reader.seconds);
        f.bytes = static_cast<double>(bytes);
        f.percent_spread = 100 * spread(reader.seconds);
        f.rounds = static_cast<double>(reader.seconds.size());
        report(state, f);
    });
}

template <class T, index KvCols>
void add_tile(shape s) {
    using tiles = imbrex::fixed_tiles<imbrex::tile_shape{imbrex::wide_geometry<float>::max_rows, KvCols}>;
    s.q_tokens = 1;
    add_case<T, imbrex::full, tiles>("tiles", s, imbrex::full{}, {.yardstick = limit::reads, .against = rivals::none},
                                     "/tile" + std::to_string(KvCols));
}

template <class T>
void add_tiles(index tokens) {
    shape const s{.q_heads = 32, .kv_heads = 8, .kv_tokens = tokens, .head_dim = 128};
    add_tile<T, 16>(s);
    add_tile<T, 32>(s);
    add_tile<T, 64>(s);
    add_tile<T, 128>(s);
    add_tile<T, 256>(s);
}

void add_all() {
    for (pages const page : {pages::small, pages::huge}) {
        for (named_read_loop const& loop : read_loops) add_read(loop, page);
    }
    // kv of 128 MB, 256 MB, and of one Llama-8B layer at 8k tokens (64 MB in f32).
    for (index const tokens : {8192, 16384, 32768})
        add_decode<float>({.q_heads = 32, .kv_heads = 8, .kv_tokens = tokens, .head_dim = 128});
    for (index const tokens : {32768, 65536})
        add_decode<imbrex::bf16>({.q_heads = 32, .kv_heads = 8, .kv_tokens = tokens, .head_dim = 128});
    add_decode<imbrex::f16>({.q_heads = 32, .kv_heads = 8, .kv_tokens = 32768, .head_dim = 128});
    // One query head to a kv head; a cache that keeps its tokens together; several sequences; one kv head for eight.
    add_decode<float>({.q_heads = 32, .kv_heads = 32, .kv_tokens = 4096, .head_dim = 128});
    add_decode<imbrex::bf16>({.q_heads = 32, .kv_heads = 32, .kv_tokens = 8192, .head_dim = 128});
    add_decode<float>({.q_heads = 32, .kv_heads = 8, .kv_tokens = 16384, .head_dim = 128, .order = layout::bshd});
    add_decode<float>({.batch = 8, .q_heads = 32, .kv_heads = 8, .kv_tokens = 2048, .head_dim = 128});
    add_decode<float>({.q_heads = 8, .kv_heads = 1, .kv_tokens = 131072, .head_dim = 128});
    add_tiles<float>(16384);
    add_tiles<imbrex::bf16>(32768);
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
