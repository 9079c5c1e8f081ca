// The attention of real models, at their shapes and in the layout in which their projections leave q, k and v: batch, token,
// head, dim.
#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

shape model(index batch, index heads, index tokens, index head_dim) {
    shape s = self_attention(heads, tokens, head_dim, layout::bshd);
    s.batch = batch;
    return s;
}

void add_all() {
    add_case<float>("bert", model(8, 12, 128, 64), imbrex::full{});
    add_case<float>("vit_l", model(1, 16, 577, 64), imbrex::full{});
    add_case<float>("whisper_encoder", model(1, 20, 1500, 64), imbrex::full{});
    add_case<float>("swin", model(256, 3, 49, 32), imbrex::full{});    // four images' 64 windows each, in the first stage
    // Llama-8B at 8k tokens: the last 256 of a chunked prefill, and a decode step; the whole prompt would be 550 GFLOP a call.
    shape llama{.q_heads = 32, .kv_heads = 8, .q_tokens = 256, .kv_tokens = 8192, .head_dim = 128, .order = layout::bshd};
    add_case<float>("llama_8b", llama, causal_rule);
    add_case<imbrex::bf16>("llama_8b", llama, causal_rule);
    llama.q_tokens = 1;
    add_case<float>("llama_8b", llama, causal_rule, {.yardstick = limit::reads});
    add_case<imbrex::bf16>("llama_8b", llama, causal_rule, {.yardstick = limit::reads});
    // One head of 128k tokens: the last 256 queries. (All of them would be 4.4 TFLOP, and Eigen's scores 64 GB.)
    shape const long_head{.q_heads = 1, .kv_heads = 1, .q_tokens = 256, .kv_tokens = 131072, .head_dim = 128};
    add_case<float>("long_head", long_head, causal_rule);
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
