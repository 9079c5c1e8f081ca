// Score rules: what masks, biases and score changes cost beside the machine's limit, and beside other ways to the same result.
// f32, 8 heads of D=128, BHSD, unless the name says otherwise.
#include <cstdint>
#include <random>

#include "rule_case.hpp"

namespace imbrex_bench {
namespace {

using imbrex::position;

constexpr index head_dim = 128;

score_definition where(std::function<bool(index b, index h, index i, index j)> sees) {
    return [sees = std::move(sees)](double x, index b, index h, index i, index j) { return sees(b, h, i, j) ? x : hidden; };
}
bool all(index, index, index, index) { return true; }
bool before(index, index, index i, index j) { return j <= i; }

double causal_pairs(shape const& s) {
    double const n = static_cast<double>(s.q_tokens);
    return static_cast<double>(s.batch * s.q_heads) * n * (n + 1) / 2;
}
double all_pairs(shape const& s) {
    return static_cast<double>(s.batch * s.q_heads) * static_cast<double>(s.q_tokens) * static_cast<double>(s.kv_tokens);
}

std::vector<float> normal_vector(index n, std::uint64_t seed, float factor = 1) {
    std::vector<float> v(static_cast<std::size_t>(n));
    normal_numbers{seed}.fill(v.data(), n);
    for (float& x : v) x *= factor;
    return v;
}

template <class Body>
void add(std::string const& name, shape const& s, Body body) {
    add_benchmark("rules/f32/wide/" + name + "/" + s.name(), [=](benchmark::State& state) { body(state, s); });
}

// A rule of its own share of the peak.
template <class MakeRule>
void add_peak(std::string const& name, shape const& s, MakeRule make, score_definition const& define) {
    add(name, s, [=](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        rule_call call{dims, make(), data};
        if (ready(state, call, define)) race_with_peak(state, call, all_pairs(dims));
    });
}

// ---- the user's own mask against the built-in one ----
void add_own_masks(shape const& s) {
    auto const race_causal = [](benchmark::State& state, shape const& dims, auto const& own) {
        tensors<float> data{dims};
        rule_call mine{dims, own, data};
        rule_call built_in{dims, causal_rule, data};
        if (!ready(state, built_in, where(before)) || !ready(state, mine, where(before))) return;
        race_with_other(state, mine.turn(), built_in.turn());
    };
    add("mask_fn_keep", s, [=](benchmark::State& state, shape const& dims) {
        race_causal(state, dims, imbrex::mask_fn{[](auto const&, auto q, auto kv) { return kv <= q; }});
    });
    add("mask_fn_classify", s, [=](benchmark::State& state, shape const& dims) {
        auto const keep = [](auto const&, auto q, auto kv) { return kv <= q; };
        auto const classify = [](auto const&, imbrex::tile_window const& w) {
            if (w.kv_begin > w.q_last) return imbrex::coverage::none;
            return w.kv_end - 1 <= w.q_first ? imbrex::coverage::full : imbrex::coverage::partial;
        };
        race_causal(state, dims, imbrex::mask_fn{keep, classify});
    });
}

// ---- masks that leave out most of the work: time over what the visible pairs predict ----
void add_window(shape const& s) {
    add("window_511", s, [](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        imbrex::window const rule{.left = 511, .right = 0};
        rule_call windowed{dims, rule, data};
        rule_call causal{dims, causal_rule, data};
        auto const sees = [](index, index, index i, index j) { return j <= i && j >= i - 511; };
        if (!ready(state, causal, where(before)) || !ready(state, windowed, where(sees))) return;
        double const n = static_cast<double>(dims.q_tokens);
        double const pairs = static_cast<double>(dims.q_heads) * (512 * n - 512.0 * 511 / 2);
        race_with_other(state, windowed.turn(), causal.turn(), pairs / causal_pairs(dims));
    });
}

void add_documents(shape const& s, index documents) {
    add("documents_16_of_512", s, [=](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        index const length = dims.q_tokens / documents;
        std::vector<position> starts;
        for (index d = 0; d <= documents; ++d) starts.push_back(static_cast<position>(d * length));
        rule_call packed{dims, imbrex::packed_documents{starts}, data};
        auto const sees = [=](index, index, index i, index j) { return i / length == j / length; };
        if (!ready(state, packed, where(sees))) return;
        shape one = dims;
        one.q_tokens = one.kv_tokens = length;
        imbrex::plan plan;
        if (!plan_of<float>(one, plan)) return state.SkipWithError("no plan");
        std::vector<std::byte> workspace(imbrex::workspace_bytes(plan));
        auto const part = [&](auto view, index d) {    // tokens of document d
            view.data = view.row(0, d * length, 0);
            view.shape.tokens = length;
            return view;
        };
        contestant apart{.call = [&] {
            for (index d = 0; d < documents; ++d) {
                static_cast<void>(imbrex::attention(plan, part(data.q.input(), d),
                                                    imbrex::dense_kv{part(data.k.input(), d), part(data.v.input(), d)},
                                                    part(data.out.view(), d), imbrex::full{}, {.workspace = workspace})
                                      .ok());
            }
        }};
        race_with_other(state, packed.turn(), apart);
    });
}

void add_block_sparse(shape const& s, index block, double density) {
    add("block_sparse_10_percent", s, [=](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        index const n = dims.q_tokens / block;
        std::vector<std::uint8_t> blocks(static_cast<std::size_t>(n * n));
        std::mt19937 random{3};
        for (index i = 0; i < n; ++i) {    // the same number of blocks in each row, its own among them
            auto* const row = blocks.data() + i * n;
            row[i] = 1;
            for (index left = static_cast<index>(density * static_cast<double>(n) + 0.5) - 1; left > 0;) {
                auto& b = row[random() % static_cast<std::uint32_t>(n)];
                left -= b == 0;
                b = 1;
            }
        }
        imbrex::score_view<std::uint8_t const> const view = imbrex::score_matrix<std::uint8_t const>(blocks.data(), {1, 1, n, n});
        rule_call sparse{dims, imbrex::block_sparse{view, block, block}, data};
        rule_call dense{dims, imbrex::full{}, data};
        auto const sees = [&](index, index, index i, index j) {
            return blocks[static_cast<std::size_t>(i / block * n + j / block)] != 0;
        };
        if (!ready(state, dense, where(all)) || !ready(state, sparse, where(sees))) return;
        race_with_other(state, sparse.turn(), dense.turn());
    });
}

void add_tree(shape const& s) {
    add("tree_64", s, [](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        index const n = dims.q_tokens, prefix = dims.kv_tokens - n;
        std::vector<position> parents, entry(static_cast<std::size_t>(n)), exit(static_cast<std::size_t>(n));
        for (index i = 0; i < n; ++i) parents.push_back(static_cast<position>(i == 0 ? -1 : (i - 1) / 2));
        if (!imbrex::number_tree(parents, entry, exit)) return state.SkipWithError("no tree");
        rule_call drafts{dims, imbrex::tree{entry, exit}, data};
        rule_call plain{dims, imbrex::full{}, data};
        auto const sees = [&](index, index, index i, index j) {
            if (j < prefix) return true;
            for (index a = i; a >= 0; a = parents[static_cast<std::size_t>(a)]) {
                if (a == j - prefix) return true;
            }
            return false;
        };
        if (!ready(state, plain, where(all)) || !ready(state, drafts, where(sees))) return;
        race_with_other(state, drafts.turn(), plain.turn());
    });
}

// ---- score changes: percent of the peak ----
void add_transforms(shape const& s) {
    add_peak("softcap", s, [] { return imbrex::softcap{30}; }, [](double x, index, index, index, index) { return 30 * std::tanh(x / 30); });
    static std::vector<float> const slopes = [] {
        std::vector<float> v(8);
        imbrex::alibi_slopes(8, v);
        return v;
    }();
    add_peak("alibi", s, [] { return imbrex::alibi{slopes}; }, [](double x, index, index h, index i, index j) {
        return x - std::exp2(-static_cast<double>(h + 1)) * static_cast<double>(std::abs(i - j));
    });
    static std::vector<float> const table = normal_vector(8 * 257, 21);
    add_peak("t5_bias", s, [] { return imbrex::relative_bias{table, 8, 128}; }, [](double x, index, index h, index i, index j) {
        return x + static_cast<double>(table[static_cast<std::size_t>(h * 257 + std::clamp<index>(j - i, -128, 128) + 128)]);
    });
}

void add_tensors(shape const& s) {
    add("dense_bf16_bias", s, [](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        imbrex::shape4 const size{1, dims.q_tokens, dims.q_heads, dims.kv_tokens};
        tensor<imbrex::bf16> const bias{size, layout::bhsd, dims.page, 31};
        auto const view = imbrex::score_matrix<imbrex::bf16 const>(bias.data(), {1, dims.q_heads, dims.q_tokens, dims.kv_tokens});
        rule_call call{dims, imbrex::bias_tensor{view}, data};
        auto const define = [&](double x, index, index h, index i, index j) { return x + imbrex::to_double(view.at(0, h, i, j)); };
        if (ready(state, call, define)) race_with_peak(state, call, all_pairs(dims));
    });
    add("bool_mask", s, [](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        std::vector<std::uint8_t> mask(static_cast<std::size_t>(dims.q_tokens * dims.kv_tokens), 1);
        auto const view = imbrex::score_matrix<std::uint8_t const>(mask.data(), {1, 1, dims.q_tokens, dims.kv_tokens});
        rule_call call{dims, imbrex::mask_tensor{view}, data};
        if (ready(state, call, where(all))) race_with_peak(state, call, all_pairs(dims));
    });
}

// ---- Swin's windows with a bias per head, against careful Eigen ----
void add_swin(shape const& s) {
    add("swin_bias", s, [](benchmark::State& state, shape const& dims) {
        tensors<float> data{dims};
        index const n = dims.q_tokens;
        std::vector<float> const bias = normal_vector(dims.q_heads * n * n, 41);
        auto const view = imbrex::score_matrix<float const>(bias.data(), {1, dims.q_heads, n, n});
        rule_call call{dims, imbrex::bias_tensor{view}, data};
        auto const define = [&](double x, index, index h, index i, index j) { return x + static_cast<double>(view.at(0, h, i, j)); };
        if (!ready(state, call, define)) return;
        naive_matrix scores(n, n);
        float const scale = 1 / std::sqrt(static_cast<float>(dims.head_dim));
        contestant careful{.call = [&] {
            for (index b = 0; b < dims.batch; ++b) {
                for (index h = 0; h < dims.q_heads; ++h) {
                    scores.noalias() = head_matrix(data.q.input(), b, h) * head_matrix(data.k.input(), b, h).transpose();
                    for (index i = 0; i < n; ++i) {
                        auto row = scores.row(i).array();
                        row = row * scale + Eigen::Map<Eigen::Array<float, 1, Eigen::Dynamic> const>(bias.data() + (h * n + i) * n, n);
                        row = (row - row.maxCoeff()).exp();
                        row *= 1 / row.sum();
                    }
                    head_matrix(data.out.view(), b, h).noalias() = scores * head_matrix(data.v.input(), b, h);
                }
            }
        }};
        careful.call();
        state.counters["eigen_error"] = error_of_rows(data, dims, define);
        race_with_other(state, call.turn(), careful);
    });
}

void add_all() {
    shape const s = self_attention(8, 2048, head_dim);
    add_own_masks(s);
    add_window(self_attention(8, 8192, head_dim));
    add_documents(self_attention(8, 8192, head_dim), 16);
    add_transforms(s);
    add_tensors(s);
    add_block_sparse(self_attention(2, 8192, head_dim), 128, 0.1);
    shape swin = self_attention(3, 49, 32, layout::bshd);
    swin.batch = 1024;
    add_swin(swin);
    shape drafts = self_attention(8, 64, head_dim);
    drafts.kv_tokens = 8192 + 64;
    add_tree(drafts);
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
