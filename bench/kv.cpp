// Where keys and values live: pages beside one dense tensor, query heads that share a kv head, mixed batches, and what a decode
// step costs besides the reading. D=128 unless the name says otherwise. Each decode case runs on 4 KB pages (huge_pages:0) and on
// huge ones (huge_pages:1) of the system.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <span>
#include <thread>

#include <imbrex/executors/thread_team.hpp>

#include "attention_case.hpp"

namespace imbrex_bench {
namespace {

using imbrex::position;

constexpr index head_dim = 128;

template <class T>
std::string case_name(shape const& s, std::string const& what) {
    std::string name = "kv/" + std::string(imbrex::dtype_name<T>()) + "/narrow/full/" + s.name() + "/" + what;
    return name + (s.page == pages::huge ? "/huge_pages:1" : "/huge_pages:0");
}

template <class Make>
void on_both_page_sizes(shape s, Make make) {
    for (pages const page : {pages::small, pages::huge}) {
        s.page = page;
        make(s);
    }
}

void report_ratio(benchmark::State& state, char const* name, contestant const& a, contestant const& b, contestant const& time) {
    std::vector<double> const ratio = ratios(a.seconds, b.seconds);
    state.SetIterationTime(median(time.seconds));
    state.counters[name] = median(ratio);
    state.counters["percent_spread"] = 100 * spread(ratio);
}

// The same keys and values in pages (pages, kv_heads, page size, head_dim), in random order.
template <class T>
struct page_pool {
    shape dims;
    index page_size;
    index pages_each = (dims.kv_tokens + page_size - 1) / page_size;
    tensor<T> k{{dims.batch * pages_each, page_size, dims.kv_heads, dims.head_dim}, layout::bhsd, dims.page, 2};
    tensor<T> v{{dims.batch * pages_each, page_size, dims.kv_heads, dims.head_dim}, layout::bhsd, dims.page, 3};
    std::vector<position> ids = shuffled(dims.batch * pages_each);
    std::vector<position> lengths =
        std::vector<position>(static_cast<std::size_t>(dims.batch), static_cast<position>(dims.kv_tokens));

    static std::vector<position> shuffled(index n) {
        std::vector<position> ids(static_cast<std::size_t>(n));
        std::iota(ids.begin(), ids.end(), 0);
        std::shuffle(ids.begin(), ids.end(), std::mt19937{20250611});
        return ids;
    }
    void take(tensors<T> const& from) {
        for (index b = 0; b < dims.batch; ++b) {
            for (index j = 0; j < dims.kv_tokens; ++j) {
                index const page = ids[static_cast<std::size_t>(b * pages_each + j / page_size)];
                for (index h = 0; h < dims.kv_heads; ++h) {
                    std::copy_n(from.k.input().row(b, j, h), dims.head_dim, k.view().row(page, j % page_size, h));
                    std::copy_n(from.v.input().row(b, j, h), dims.head_dim, v.view().row(page, j % page_size, h));
                }
            }
        }
    }
    imbrex::paged_kv<T> kv() const { return {k.input(), v.input(), {ids, pages_each, {}}, lengths}; }
};

template <class T>
void measure_pages(benchmark::State& state, shape const& s, index page_size) {
    prepared_call<T, imbrex::full> dense{s, {}};
    if (!worked(state, plan_of<T>(s, dense.plan))) return;
    dense.workspace.resize(imbrex::workspace_bytes(dense.plan));
    if (!worked(state, dense())) return;
    page_pool<T> pool{s, page_size};
    pool.take(dense.data);
    tensor<T> const out{s.q(), s.order, s.page, 9};
    imbrex::plan p;
    if (!worked(state, imbrex::plan_for(dense.data.q.input(), pool.kv(), out.view(), p))) return;
    std::vector<std::byte> workspace(imbrex::workspace_bytes(p));
    auto const call = [&] {
        return imbrex::attention(p, dense.data.q.input(), pool.kv(), out.view(), imbrex::full{}, {.workspace = workspace});
    };
    if (!worked(state, call())) return;
    if (std::memcmp(out.data(), dense.data.out.data(), static_cast<std::size_t>(out.bytes())) != 0)
        return fail(state, "pages give other bits");

    contestant ours{.call = [&] { static_cast<void>(call().ok()); }}, other{.call = [&] { static_cast<void>(dense().ok()); }};
    race{.budget_seconds = 1}.run({&ours, &other});
    report_ratio(state, "speed_over_dense", other, ours, ours);
}

template <class T>
void add_pages(shape const& s, index page_size) {
    on_both_page_sizes(s, [=](shape const& dims) {
        add_benchmark(case_name<T>(dims, "pages" + std::to_string(page_size)),
                      [=](benchmark::State& state) { measure_pages<T>(state, dims, page_size); });
    });
}

// As many kv heads, read by one query head each and by several.
void measure_group(benchmark::State& state, shape const& s) {
    prepared_call<float, imbrex::full> grouped{s, {}};
    shape single = s;
    single.q_heads = s.kv_heads;
    tensor<float> const q{single.q(), s.order, s.page, 1}, out{single.q(), s.order, s.page, 4};
    imbrex::plan p;
    if (!worked(state, plan_of<float>(s, grouped.plan)) || !worked(state, plan_of<float>(single, p))) return;
    grouped.workspace.resize(imbrex::workspace_bytes(grouped.plan));
    if (!worked(state, grouped())) return;
    if (!check_rows(grouped.data, s, imbrex::full{}).passed) return fail(state, "wrong result");
    auto const call = [&] {
        return imbrex::attention(p, q.input(), grouped.data.kv(), out.view(), imbrex::full{}, {.workspace = grouped.workspace});
    };
    if (!worked(state, call())) return;
    contestant ours{.call = [&] { static_cast<void>(grouped().ok()); }}, other{.call = [&] { static_cast<void>(call().ok()); }};
    race{.budget_seconds = 1}.run({&ours, &other});
    report_ratio(state, "time_over_ungrouped", ours, other, ours);
}

// Four prompts of 512 without past and four single tokens over 2048 keys, packed in one call.
struct mixed_batch {
    std::vector<position> q_starts{0}, kv_starts{0};
    mixed_batch() {
        for (int i = 0; i < 8; ++i) {
            q_starts.push_back(q_starts.back() + (i < 4 ? 512 : 1));
            kv_starts.push_back(kv_starts.back() + (i < 4 ? 512 : 2048));
        }
    }
};

void measure_mixed(benchmark::State& state) {
    mixed_batch const m;
    index const heads = 32, kv_heads = 8;
    tensor<float> const q{{1, m.q_starts.back(), heads, head_dim}, layout::bshd, pages::huge, 1},
        out{{1, m.q_starts.back(), heads, head_dim}, layout::bshd, pages::huge, 2},
        one{{1, m.q_starts.back(), heads, head_dim}, layout::bshd, pages::huge, 2},
        k{{1, m.kv_starts.back(), kv_heads, head_dim}, layout::bhsd, pages::huge, 3},
        v{{1, m.kv_starts.back(), kv_heads, head_dim}, layout::bhsd, pages::huge, 4};
    imbrex::packed_queries<float> const queries{q.input(), m.q_starts};
    imbrex::packed_kv<float> const kv{k.input(), v.input(), m.kv_starts};
    imbrex::plan p;
    if (!worked(state, imbrex::plan_for(queries, kv, out.view(), p))) return;
    imbrex::thread_team first{1}, both{2};
    std::vector<std::byte> workspace(imbrex::workspace_bytes(p, 2));
    auto const call = [&](imbrex::executor_ref executor, tensor<float> const& to) {
        return imbrex::attention(p, queries, kv, to.view(), causal_rule, {.executor = executor, .workspace = workspace});
    };
    if (!worked(state, call(first, one)) || !worked(state, call(both, out))) return;
    if (std::memcmp(out.data(), one.data(), static_cast<std::size_t>(out.bytes())) != 0)
        return fail(state, "two threads give other bits");

    constexpr index pieces = 100;
    auto const peak = [](imbrex::thread_team& team) {
        std::atomic<index> next{0};
        auto task = [&](index) {
            while (next.fetch_add(1, std::memory_order_relaxed) < pieces) run_fmas(fma_slice_rounds);
        };
        team.run(team.max_workers(), task);
    };
    contestant ours_one{.call = [&] { static_cast<void>(call(first, out).ok()); }},
        ours_both{.call = [&] { static_cast<void>(call(both, out).ok()); }}, peak_one{.call = [&] { peak(first); }},
        peak_both{.call = [&] { peak(both); }};
    race{.clock = CLOCK_MONOTONIC, .budget_seconds = 6}.run({&peak_one, &ours_one, &ours_both, &peak_both});
    std::vector<double> const ours = ratios(ours_one.seconds, ours_both.seconds),
                              of_peak = ratios(peak_one.seconds, peak_both.seconds);
    state.SetIterationTime(median(ours_both.seconds));
    state.counters["speedup"] = median(ours);
    state.counters["peak_speedup"] = median(of_peak);
    state.counters["speedup_over_peak_speedup"] = median(ratios(ours, of_peak));
}

// A token more in every step: what the checks and the lengths cost beside a call over 128 tokens. The pages hold 16 tokens.
void measure_step(benchmark::State& state, shape const& s) {
    tensors<float> data{s};
    page_pool<float> pool{s, 16};
    pool.take(data);
    imbrex::plan p;
    if (!worked(state, imbrex::plan_for(data.q.input(), pool.kv(), data.out.view(), p))) return;
    std::vector<std::byte> workspace(imbrex::workspace_bytes(p));
    auto const call = [&] {
        return imbrex::attention(p, data.q.input(), pool.kv(), data.out.view(), imbrex::full{}, {.workspace = workspace});
    };
    auto const step = [&] {
        position& length = pool.lengths[0];
        length = length < s.kv_tokens ? length + 1 : static_cast<position>(s.kv_tokens - 16);
        static_cast<void>(call().ok());
    };
    // What is left of a call without queries: everything but the items.
    imbrex::tensor_view<float const> none = data.q.input();
    imbrex::tensor_view<float> nothing = data.out.view();
    none.shape.tokens = nothing.shape.tokens = 0;
    auto const checks = [&] { return imbrex::attention(p, none, pool.kv(), nothing, imbrex::full{}, {.workspace = workspace}); };
    if (!worked(state, call()) || !worked(state, checks())) return;
    contestant whole{.call = step}, overhead{.call = [&] { static_cast<void>(checks().ok()); }};
    race{.budget_seconds = 0.5}.run({&whole, &overhead});
    report_ratio(state, "checks_share", overhead, whole, whole);
}

// One long sequence on all cores, beside the best of the read loops on the same bytes with as many threads.
void measure_long_sequence(benchmark::State& state, shape const& s, index threads) {
    imbrex::thread_team team{threads};
    prepared_call<imbrex::bf16, imbrex::full> ours{s, {}};
    ours.executor = team;
    if (!worked(state, plan_of<imbrex::bf16>(s, ours.plan))) return;
    ours.workspace.resize(imbrex::workspace_bytes(ours.plan, threads));
    if (!worked(state, ours())) return;
    if (!check_rows(ours.data, s, imbrex::full{}).passed) return fail(state, "wrong result");
    std::vector<memory_block> const kv{block_of(ours.data.k), block_of(ours.data.v)};
    auto const read = [&](read_loop loop) {
        constexpr index piece = index{256} << 10;
        for (memory_block const& b : kv) {
            std::atomic<index> next{0};
            auto task = [&](index) {
                for (index at; (at = next.fetch_add(piece, std::memory_order_relaxed)) < whole_bytes(b);)
                    loop(b.data + at, std::min(piece, whole_bytes(b) - at));
            };
            team.run(threads, task);
        }
    };
    contestant attention{.call = [&] { static_cast<void>(ours().ok()); }};
    std::vector<contestant> readers;
    for (named_read_loop const& loop : read_loops) readers.push_back({.call = [&read, run = loop.run] { read(run); }});
    std::vector<contestant*> all{&attention};
    for (contestant& r : readers) all.push_back(&r);
    race{.clock = CLOCK_MONOTONIC, .budget_seconds = 5}.run(all);
    contestant const& best = *std::min_element(readers.begin(), readers.end(), [](contestant const& a, contestant const& b) {
        return median(a.seconds) < median(b.seconds);
    });
    report_ratio(state, "share_of_read", best, attention, attention);
    state.counters["gbps"] = 1e-9 * static_cast<double>(ours.data.kv_bytes()) / median(attention.seconds);
    state.counters["read_gbps"] = 1e-9 * static_cast<double>(ours.data.kv_bytes()) / median(best.seconds);
}

void add_all() {
    shape const dense{.q_heads = 32, .kv_heads = 8, .q_tokens = 1, .kv_tokens = 16384, .head_dim = head_dim};
    shape const twice{.q_heads = 32, .kv_heads = 8, .q_tokens = 1, .kv_tokens = 32768, .head_dim = head_dim};
    for (index const page_size : {16, 1}) {
        add_pages<float>(dense, page_size);
        add_pages<imbrex::bf16>(twice, page_size);
    }
    on_both_page_sizes(dense, [](shape const& s) {
        add_benchmark(case_name<float>(s, "group"), [=](benchmark::State& state) { measure_group(state, s); });
    });
    add_benchmark("kv_threads/f32/mixed_batch/threads:2", measure_mixed);
    shape const long_sequence{.q_heads = 32, .kv_heads = 8, .q_tokens = 1, .kv_tokens = 131072, .head_dim = head_dim};
    index const cores = std::max<index>(2, static_cast<index>(std::thread::hardware_concurrency()));
    add_benchmark("kv_threads/bf16/long_sequence/" + long_sequence.name() + "/threads:" + std::to_string(cores),
                  [=](benchmark::State& state) { measure_long_sequence(state, long_sequence, cores); });
    shape const little{.q_heads = 32, .kv_heads = 8, .q_tokens = 1, .kv_tokens = 128, .head_dim = head_dim};
    add_benchmark(case_name<float>(little, "step"), [=](benchmark::State& state) { measure_step(state, little); });
}

}    // namespace
}    // namespace imbrex_bench

int main(int argc, char** argv) { return imbrex_bench::run_benchmarks(argc, argv, imbrex_bench::add_all); }
