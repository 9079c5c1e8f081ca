// Encoded caches: decode and prefill over 8-bit floats, int8, int4 and ggml's blocks beside the same call over bf16. Keys and
// values are numbers of N(0, 1), encoded from one source; results are checked against attention over the decoded numbers. Queries
// are f32, or bf16 (bf16_queries), 32 heads on 8, D=128; the bf16 cache is widened (speed_over_bf16), or multiplied in pairs
// where queries are bf16 too (speed_over_bf16_pairs). The cache of each encoding is larger than the last-level cache. Decode
// cases run on 4 KB pages (huge_pages:0) and on huge ones (huge_pages:1).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

constexpr index head_dim = 128;

// One tensor of keys or values, and its scales where they lie beside it.
template <class E>
struct encoded {
    static constexpr bool scaled = imbrex::side_scaled<E>;
    index group;
    imbrex::shape4 numbers;
    page_memory memory, scale_memory;

    encoded(imbrex::shape4 s, index group_of, pages page, std::uint64_t seed)
        : group{group_of},
          numbers{s},
          memory{s.batch * s.tokens * s.heads * imbrex::row_bytes<E>(s.head_dim), page},
          scale_memory{scaled ? s.elements() / group * 4 : 4096, page} {
        std::vector<float> row(static_cast<std::size_t>(s.head_dim));
        normal_numbers random{seed};
        for (index h = 0; h < s.heads; ++h) {
            for (index j = 0; j < s.tokens; ++j) {
                random.fill(row.data(), s.head_dim);
                E* const to = const_cast<E*>(view().row(0, j, h));
                if constexpr (scaled) {
                    imbrex::encode_row(row.data(), s.head_dim, to, const_cast<float*>(scales().row(0, j, h)), group);
                } else {
                    imbrex::encode_row(row.data(), s.head_dim, to);
                }
            }
        }
    }
    imbrex::tensor_view<E const> view() const {
        return imbrex::bhsd(reinterpret_cast<E const*>(memory.data()),
                            {1, numbers.tokens, numbers.heads, imbrex::row_units<E>(numbers.head_dim)});
    }
    imbrex::tensor_view<float const> scales() const {
        return imbrex::bhsd(reinterpret_cast<float const*>(scale_memory.data()),
                            {1, numbers.tokens, numbers.heads, numbers.head_dim / group});
    }
    double value(index j, index h, index d) const {
        if constexpr (scaled) {
            return static_cast<double>(imbrex::value_at(view().row(0, j, h), {scales().row(0, j, h), group}, d));
        } else {
            return static_cast<double>(imbrex::value_at(view().row(0, j, h), d));
        }
    }
};

template <class E>
struct cache {
    encoded<E> k, v;
    cache(shape const& s, index group) : k{s.kv(), group, s.page, 2}, v{s.kv(), group, s.page, 3} {}

    auto kv() const {
        imbrex::dense_kv const plain{k.view(), v.view()};
        if constexpr (encoded<E>::scaled) {
            return imbrex::scaled_kv{plain, k.scales(), v.scales()};
        } else {
            return plain;
        }
    }
};

// A call on a cache of this encoding. Causal, which in decode leaves out nothing.
template <class E, imbrex::products M = imbrex::products::as_stored, class Q = float>
struct encoded_call {
    shape dims;
    cache<E> held;
    tensor<Q> q{dims.q(), dims.order, dims.page, 1}, out{dims.q(), dims.order, dims.page, 4};
    imbrex::plan plan{};
    std::vector<std::byte> workspace{};

    encoded_call(shape const& s, index group) : dims{s}, held{s, group} {}

    imbrex::status prepare() {
        if (imbrex::status const s = imbrex::plan_for<M>(q.input(), held.kv(), out.view(), plan); !s) return s;
        workspace.resize(imbrex::workspace_bytes(plan));
        return (*this)();
    }
    imbrex::status operator()() {
        return imbrex::attention<M>(plan, q.input(), held.kv(), out.view(), causal_rule, {.workspace = workspace});
    }
    // The largest error of the last query of some heads, over the largest output.
    double error() const {
        double worst = 0, largest = 0;
        for (index const h : {index{0}, dims.q_heads / 2 + 1}) {
            index const g = h / dims.group(), i = dims.q_tokens - 1;
            std::vector<double> p(static_cast<std::size_t>(dims.kv_tokens)), o(static_cast<std::size_t>(dims.head_dim));
            double most = -INFINITY, sum = 0;
            for (index j = 0; j < dims.kv_tokens; ++j) {
                double x = 0;
                for (index d = 0; d < dims.head_dim; ++d)
                    x += imbrex::to_double(q.input().row(0, i, h)[d]) * held.k.value(j, g, d);
                p[static_cast<std::size_t>(j)] = x / std::sqrt(static_cast<double>(dims.head_dim));
                most = std::max(most, p[static_cast<std::size_t>(j)]);
            }
            for (index j = 0; j < dims.kv_tokens; ++j) {
                double const weight = std::exp(p[static_cast<std::size_t>(j)] - most);
                sum += weight;
                for (index d = 0; d < dims.head_dim; ++d) o[static_cast<std::size_t>(d)] += weight * held.v.value(j, g, d);
            }
            for (index d = 0; d < dims.head_dim; ++d) {
                double const right = o[static_cast<std::size_t>(d)] / sum;
                double const error = std::abs(imbrex::to_double(out.input().row(0, i, h)[d]) - right);
                if (!(error <= worst)) worst = error;    // NaN too
                largest = std::max(largest, std::abs(right));
            }
        }
        return worst / largest;
    }
    contestant turn() {
        return {.call = [this] { static_cast<void>((*this)().ok()); }};
    }
};

// Over the largest output.
template <imbrex::products M, class Q>
constexpr double largest_error = M == imbrex::products::eight_bit  ? 3e-2
                                 : std::is_same_v<Q, imbrex::bf16> ? 1e-2
                                                                   : 1e-4;

template <class E, imbrex::products M, class Q>
void race_with_bf16(benchmark::State& state, shape const& s, index group) {
    encoded_call<E, M, Q> ours{s, group};
    encoded_call<imbrex::bf16, imbrex::products::widened, Q> bf16{s, 1};
    encoded_call<imbrex::bf16, imbrex::products::as_stored, Q> pairs{std::is_same_v<Q, float> ? shape{} : s, 1};
    imbrex::status const made_pairs = std::is_same_v<Q, float> ? imbrex::status{} : pairs.prepare();
    for (imbrex::status const& made : {ours.prepare(), bf16.prepare(), made_pairs}) {
        if (!made) {
            state.SetIterationTime(0);
            return state.SkipWithError(made.message().c_str());
        }
    }
    double const error = ours.error();
    state.counters["error"] = error;
    if (!(error <= largest_error<M, Q>)) {
        state.SetIterationTime(0);
        return state.SkipWithError("wrong result");
    }
    contestant a = ours.turn(), b = bf16.turn(), c = pairs.turn();
    if (std::is_same_v<Q, float>)
        race{.budget_seconds = 1.5}.run({&a, &b});
    else
        race{.budget_seconds = 1.5}.run({&a, &b, &c});
    std::vector<double> const ratio = ratios(b.seconds, a.seconds);
    state.SetIterationTime(median(a.seconds));
    state.counters["speed_over_bf16"] = median(ratio);
    if (!c.seconds.empty()) state.counters["speed_over_bf16_pairs"] = median(ratios(c.seconds, a.seconds));
    state.counters["percent_spread"] = 100 * spread(ratio);
    state.SetLabel(std::string(path_of(ours.plan).view()));
}

template <class E, imbrex::products M = imbrex::products::as_stored, class Q = float>
void add_encoding(std::string const& name, index group) {
    for (index const kv_heads : {8, 32}) {
        for (pages const page : {pages::small, pages::huge}) {
            shape const s{.q_heads = 32,
                          .kv_heads = kv_heads,
                          .q_tokens = 1,
                          .kv_tokens = 65536 * 8 / kv_heads,
                          .head_dim = head_dim,
                          .page = page};
            add_benchmark(
                "encodings/" + name + "/narrow/causal/" + s.name() + (page == pages::huge ? "/huge_pages:1" : "/huge_pages:0"),
                [=](benchmark::State& state) { race_with_bf16<E, M, Q>(state, s, group); });
        }
    }
    shape const s = self_attention(8, 2048, head_dim);
    add_benchmark("encodings/" + name + "/wide/causal/" + s.name(),
                  [=](benchmark::State& state) { race_with_bf16<E, M, Q>(state, s, group); });
}

void add_all() {
    add_encoding<imbrex::f8_e4m3>("f8_e4m3", 1);
    add_encoding<imbrex::f8_e5m2>("f8_e5m2", 1);
    add_encoding<imbrex::f8_e4m3, imbrex::products::as_stored, imbrex::bf16>("f8_e4m3/bf16_queries", 1);
    add_encoding<imbrex::f8_e5m2, imbrex::products::as_stored, imbrex::bf16>("f8_e5m2/bf16_queries", 1);
    add_encoding<std::int8_t>("int8", head_dim);
    add_encoding<std::int8_t, imbrex::products::eight_bit>("int8_eight_bit", head_dim);
    add_encoding<std::int8_t>("int8_g32", 32);
    add_encoding<imbrex::int4_pair>("int4_g32", 32);
    add_encoding<imbrex::q8_0_block>("q8_0", 1);
    add_encoding<imbrex::q4_0_block>("q4_0", 1);
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
