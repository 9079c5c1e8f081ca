// Sequences that share a prefix, and the shapes of latent attention (MLA).
//
// Cascade: one token of each of 32 sequences over a prefix of 8192 keys that all share and 128 keys of its own. The prefix is
// attended to once, with the tokens of all sequences as one, each suffix apart, and the two are merged. `unshared` is a call over
// both parts of each sequence (two_part_kv), which has the same keys and values in memory but reads the prefix once a sequence.
// Latent attention (DeepSeek-V2, arXiv:2405.04434, sec. 2.1): absorbed, all heads read one latent row of 576 numbers, whose first
// 512 are the value; unabsorbed, heads of 192 with values of 128.
#include <cmath>
#include <span>
#include <vector>

#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

using imbrex::position;

double pair_flops(index pairs, index head_dim, index head_dim_v) {
    return 2.0 * static_cast<double>(pairs) * static_cast<double>(head_dim + head_dim_v);
}

void report_share(benchmark::State& state, contestant const& yardstick, contestant const& ours, double flops) {
    std::vector<double> const share = ratios(yardstick.seconds, ours.seconds);
    state.SetIterationTime(median(ours.seconds));
    state.counters["gflops"] = 1e-9 * flops / median(ours.seconds);
    state.counters["percent_of_peak"] = 100 * median(share) * flops / fma_slice_flops;
    state.counters["percent_spread"] = 100 * spread(share);
}

struct cascade_shape {
    index sequences = 32, prefix = 8192, suffix = 128, q_heads = 32, kv_heads = 8, head_dim = 128;

    std::string name() const {
        std::string n;
        n += 'B' + std::to_string(sequences) + "_H" + std::to_string(q_heads) + "_K" + std::to_string(kv_heads) + "_Q1_KV" +
             std::to_string(prefix) + "_D" + std::to_string(head_dim) + "/bhsd/suffix" + std::to_string(suffix);
        return n;
    }
    double flops() const { return pair_flops(sequences * q_heads * (prefix + suffix), head_dim, head_dim); }
};

// What a step of a batch has: rows of queries and outputs (sequences, heads, head_dim), seen as a batch of single tokens and as
// the tokens of one sequence.
struct cascade {
    cascade_shape s;
    imbrex::shape4 as_batch{s.sequences, 1, s.q_heads, s.head_dim}, as_tokens{1, s.sequences, s.q_heads, s.head_dim};
    tensor<float> q{as_batch, layout::bshd, pages::huge, 1}, out{as_batch, layout::bshd, pages::huge, 2},
        of_prefix{as_batch, layout::bshd, pages::huge, 3}, of_suffix{as_batch, layout::bshd, pages::huge, 4},
        unshared{as_batch, layout::bshd, pages::huge, 5};
    tensor<float> prefix_k{{1, s.prefix, s.kv_heads, s.head_dim}, layout::bhsd, pages::huge, 6},
        prefix_v{{1, s.prefix, s.kv_heads, s.head_dim}, layout::bhsd, pages::huge, 7},
        suffix_k{{s.sequences, s.suffix, s.kv_heads, s.head_dim}, layout::bhsd, pages::huge, 8},
        suffix_v{{s.sequences, s.suffix, s.kv_heads, s.head_dim}, layout::bhsd, pages::huge, 9};
    std::vector<float> prefix_lse = std::vector<float>(static_cast<std::size_t>(s.sequences * s.q_heads)),
                       suffix_lse = prefix_lse;
    std::vector<position> lengths = std::vector<position>(static_cast<std::size_t>(s.sequences), static_cast<position>(s.suffix));
    imbrex::plan prefix_plan{}, suffix_plan{}, both_plan{};
    std::vector<std::byte> workspace{};

    imbrex::dense_kv<float> prefix() const { return {prefix_k.input(), prefix_v.input()}; }
    imbrex::dense_kv<float> suffix() const { return {suffix_k.input(), suffix_v.input()}; }
    imbrex::two_part_kv<float> both() const { return {prefix(), suffix(), lengths}; }
    imbrex::tensor_view<float> tokens(tensor<float> const& t) const { return imbrex::bshd(t.data(), as_tokens); }
    imbrex::tensor_view<float const> query_tokens() const { return tokens(q); }
    static imbrex::row_stats_view<float> rows(std::vector<float>& lse, index sequence, index token) {
        return {lse.data(), sequence, 1, token};
    }

    imbrex::status plan() {
        if (auto const p = imbrex::plan_for(query_tokens(), prefix(), tokens(of_prefix), prefix_plan); !p) return p;
        if (auto const p = imbrex::plan_for(q.input(), suffix(), of_suffix.view(), suffix_plan); !p) return p;
        if (auto const p = imbrex::plan_for(q.input(), both(), unshared.view(), both_plan); !p) return p;
        workspace.resize(std::max(
            {imbrex::workspace_bytes(prefix_plan), imbrex::workspace_bytes(suffix_plan), imbrex::workspace_bytes(both_plan)}));
        return {};
    }
    imbrex::status run() {
        index const heads = s.q_heads;
        auto const a = imbrex::attention(prefix_plan, query_tokens(), prefix(), tokens(of_prefix), imbrex::full{},
                                         {.lse = rows(prefix_lse, 0, heads), .workspace = workspace});
        if (!a) return a;
        auto const b = imbrex::attention(suffix_plan, q.input(), suffix(), of_suffix.view(), imbrex::full{},
                                         {.lse = rows(suffix_lse, heads, 0), .workspace = workspace});
        if (!b) return b;
        return imbrex::merge(imbrex::partial_state{of_prefix.view(), rows(prefix_lse, heads, 0)},
                             imbrex::partial_state{of_suffix.view(), rows(suffix_lse, heads, 0)}, out.view());
    }
    imbrex::status run_unshared() {
        return imbrex::attention(both_plan, q.input(), both(), unshared.view(), imbrex::full{}, {.workspace = workspace});
    }
    bool agree() const {
        for (index i = 0; i < as_batch.elements(); ++i) {
            if (!(std::abs(out.data()[i] - unshared.data()[i]) <= 1e-5f)) return false;    // NaN too
        }
        return true;
    }
};

void measure_cascade(benchmark::State& state, cascade_shape const& s) {
    cascade c{s};
    if (!worked(state, c.plan()) || !worked(state, c.run()) || !worked(state, c.run_unshared())) return;
    if (!c.agree()) return fail(state, "the cascade differs from calls over both parts");
    contestant yardstick = fma_yardstick(), ours{.call = [&] { static_cast<void>(c.run().ok()); }},
               unshared{.call = [&] { static_cast<void>(c.run_unshared().ok()); }};
    race{.budget_seconds = 3}.run(yardstick, ours, {&unshared});
    report_share(state, yardstick, ours, s.flops());
    state.counters["speed_over_unshared"] = median(ratios(unshared.seconds, ours.seconds));
    state.SetLabel(std::string("prefix: ") + path_of(c.prefix_plan).c_str() + "; suffix: " + path_of(c.suffix_plan).c_str());
}

// Keys of one latent head; each value is the beginning of its key's row.
template <class T>
void measure_absorbed(benchmark::State& state, index heads, index q_tokens, index kv_tokens) {
    constexpr index head_dim = 576, head_dim_v = 512;
    tensor<T> const q{{1, q_tokens, heads, head_dim}, layout::bshd, pages::huge, 1},
        latent{{1, kv_tokens, 1, head_dim}, layout::bhsd, pages::huge, 2},
        out{{1, q_tokens, heads, head_dim_v}, layout::bshd, pages::huge, 3};
    imbrex::tensor_view<T const> values = latent.input();
    values.shape.head_dim = head_dim_v;
    imbrex::dense_kv<T> const kv{latent.input(), values};
    imbrex::plan p;
    if (!worked(state, imbrex::plan_for(q.input(), kv, out.view(), p))) return;
    std::vector<std::byte> workspace(imbrex::workspace_bytes(p));
    auto const call = [&] { return imbrex::attention(p, q.input(), kv, out.view(), causal_rule, {.workspace = workspace}); };
    if (!worked(state, call())) return;
    std::vector<memory_block> const rows{block_of(latent)};
    read_figure const read = fastest_read(rows);
    contestant fma = fma_yardstick(), ours{.call = [&] { static_cast<void>(call().ok()); }},
               reader{.call = [&] { read_all(read.loop.run, rows); }};
    race{.budget_seconds = 1}.run(fma, ours, {&reader});
    index const pairs = heads * (q_tokens * kv_tokens - q_tokens * (q_tokens - 1) / 2);
    report_share(state, fma, ours, pair_flops(pairs, head_dim, head_dim_v));
    state.counters["percent_of_bandwidth"] = 100 * median(ratios(reader.seconds, ours.seconds));
    state.SetLabel(path_of(p).c_str());
}

template <class T>
void measure_unabsorbed(benchmark::State& state, index heads, index tokens) {
    constexpr index head_dim = 192, head_dim_v = 128;
    tensor<T> const q{{1, tokens, heads, head_dim}, layout::bhsd, pages::huge, 1},
        k{{1, tokens, heads, head_dim}, layout::bhsd, pages::huge, 2},
        v{{1, tokens, heads, head_dim_v}, layout::bhsd, pages::huge, 3},
        out{{1, tokens, heads, head_dim_v}, layout::bhsd, pages::huge, 4};
    imbrex::dense_kv<T> const kv{k.input(), v.input()};
    imbrex::plan p;
    if (!worked(state, imbrex::plan_for(q.input(), kv, out.view(), p))) return;
    std::vector<std::byte> workspace(imbrex::workspace_bytes(p));
    auto const call = [&] { return imbrex::attention(p, q.input(), kv, out.view(), causal_rule, {.workspace = workspace}); };
    if (!worked(state, call())) return;
    contestant fma = fma_yardstick(), ours{.call = [&] { static_cast<void>(call().ok()); }};
    race{.budget_seconds = 1}.run(fma, ours);
    report_share(state, fma, ours, pair_flops(heads * tokens * (tokens + 1) / 2, head_dim, head_dim_v));
    state.SetLabel(path_of(p).c_str());
}

void add_all() {
    for (index const kv_heads : {8, 32}) {
        cascade_shape const s{.kv_heads = kv_heads};
        add_benchmark("cascade/f32/both/full/" + s.name(), [=](benchmark::State& state) { measure_cascade(state, s); });
    }
    auto const absorbed = [](auto type, index heads) {
        using T = decltype(type);
        add_benchmark("mla/" + std::string(imbrex::dtype_name<T>()) + "/any/causal/B1_H" + std::to_string(heads) +
                          "_K1_Q1_KV32768_D576/bhsd/absorbed",
                      [=](benchmark::State& state) { measure_absorbed<T>(state, heads, 1, 32768); });
    };
    for (index const heads : {8, 16, 128}) {
        absorbed(float{}, heads);
        absorbed(imbrex::bf16{}, heads);
    }
    add_benchmark("mla/f32/wide/causal/B1_H16_K16_Q2048_KV2048_D192/bhsd/unabsorbed",
                  [](benchmark::State& state) { measure_unabsorbed<float>(state, 16, 2048); });
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
