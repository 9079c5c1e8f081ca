// README.md's blocks of C++ compile and do what they say: each stands, as it is, in a function that has what it takes for granted.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "imbrex/imbrex.hpp"

namespace ix = imbrex;

namespace {

template <class T>
std::vector<T> numbers(std::size_t n) {
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = T(static_cast<float>(i * 7919 % 251) / 125.5f - 1);
    return x;
}

bool all_finite(std::vector<float> const& x) {
    for (float const v : x) {
        if (!std::isfinite(v)) return false;
    }
    return true;
}

std::vector<float> const nan_of(std::size_t n) { return std::vector<float>(n, std::nanf("")); }

}    // namespace

TEST(Readme, ACallInTenLines) {
    ix::index const batch = 2, tokens = 3, cached = 7;
    auto const q_memory = numbers<float>(2 * 3 * 32 * 128);
    auto const keys_memory = numbers<ix::bf16>(2 * 7 * 8 * 128), values_memory = keys_memory;
    auto out_memory = nan_of(q_memory.size());
    float const* const query = q_memory.data();
    ix::bf16 const *const keys = keys_memory.data(), *const values = values_memory.data();
    float* const out = out_memory.data();
    ix::executor_ref const my_pool{};
    std::vector<std::byte> my_memory(std::size_t{1} << 20);
    std::span<std::byte> const my_bytes{my_memory};
#include "readme_1.inc"
    EXPECT_TRUE(s.ok()) << s.message().c_str();
    EXPECT_TRUE(all_finite(out_memory));
}

TEST(Readme, ScratchForAPlanAndItsWorkers) {
    auto const x = numbers<float>(2 * 5 * 2 * 8);
    auto out_memory = nan_of(x.size());
    auto const q = ix::bshd(x.data(), {2, 5, 2, 8});
    auto const out = ix::bshd(out_memory.data(), {2, 5, 2, 8});
    ix::dense_kv const kv{q, q};
    struct {
        static void run(ix::index n, ix::task_ref task) { ix::serial_executor::run(n, task); }
        static ix::index max_workers() { return 3; }
    } pool;
    ix::plan plan;
    ix::status s = ix::plan_for(q, kv, out, plan);
    ASSERT_TRUE(s.ok()) << s.message().c_str();
#include "readme_2.inc"
    EXPECT_TRUE(s.ok()) << s.message().c_str();
    EXPECT_TRUE(all_finite(out_memory));
}

TEST(Readme, Rules) {
    std::vector<float> const logits(2, 0.5f);
    std::span<float const> const sinks{logits};
#include "readme_3.inc"
    auto const x = numbers<float>(2 * 5 * 2 * 8);
    auto out = nan_of(x.size());
    auto const view = ix::bshd(x.data(), {2, 5, 2, 8});
    auto const runs = [&](auto const& rule) {
        out = nan_of(x.size());
        ix::status const s = ix::attention(view, ix::dense_kv{view, view}, ix::bshd(out.data(), {2, 5, 2, 8}), rule, {.workspace = ix::allocate{}});
        EXPECT_TRUE(s.ok()) << s.message().c_str();
        return all_finite(out);
    };
    EXPECT_TRUE(runs(gemma));
    EXPECT_TRUE(runs(gpt_oss));
    EXPECT_TRUE(runs(own));
}

namespace {

struct rope_of_the_call {
    std::vector<float> frequencies = std::vector<float>(64);
    ix::rope turned{};
    rope_of_the_call() {
        ix::rope_frequencies(500000, {}, frequencies);
        turned = {.pairs = ix::rope_pairs::halves, .rotary_dim = 128, .frequencies = frequencies};
    }
};

}    // namespace

TEST(Readme, DecodeOverAPagedCache) {
    auto key_memory = numbers<ix::bf16>(500 * 16 * 8 * 128), value_memory = key_memory;
    ix::bf16 *const key_pool = key_memory.data(), *const value_pool = value_memory.data();
    std::vector<ix::position> ids(8 * 64), lengths(8, 5);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i % 64 < 62 ? static_cast<ix::position>(i / 64 * 62 + i % 64) : 0;
    auto const q_memory = numbers<float>(8 * 32 * 128), new_memory = numbers<float>(8 * 8 * 128);
    auto out_memory = nan_of(q_memory.size());
    auto const new_q = ix::bshd(q_memory.data(), {8, 1, 32, 128});
    auto const new_k = ix::bshd(new_memory.data(), {8, 1, 8, 128}), new_v = new_k;
    auto const out = ix::bshd(out_memory.data(), {8, 1, 32, 128});
    rope_of_the_call const of_call;
    ix::rope const rope = of_call.turned;
    std::vector<std::byte> my_memory(std::size_t{64} << 20);
    std::span<std::byte> const my_bytes{my_memory};
    ix::status s;
    int steps = 3;
    auto const decoding = [&] { return steps-- > 0; };
#include "readme_4.inc"
    EXPECT_TRUE(s.ok()) << s.message().c_str();
    EXPECT_EQ(lengths[7], 8);
    EXPECT_TRUE(all_finite(out_memory));
}

TEST(Readme, Rope) {
    auto query_memory = numbers<float>(128);
    auto const before = query_memory;
    float* const query_row = query_memory.data();
    ix::position const position = 3;
#include "readme_5.inc"
    double length = 0, length_before = 0;
    for (std::size_t i = 0; i < 128; ++i) length += query_memory[i] * query_memory[i], length_before += before[i] * before[i];
    EXPECT_NEAR(length, length_before, 1e-4);
    EXPECT_NE(query_memory, before);
}

TEST(Readme, EncodedCaches) {
    std::vector<ix::q8_0_block> const block_memory(500 * 16 * 8 * 4);
    ix::q8_0_block const *const key_blocks = block_memory.data(), *const value_blocks = key_blocks;
    std::vector<ix::position> ids(8 * 64), lengths(8, 5);
    ix::block_table const table{ids, 64};
    auto const codes = numbers<std::int8_t>(2 * 5 * 8 * 128);
    std::vector<float> const scale_memory(2 * 5 * 8, 0.25f);
    auto const k8 = ix::bshd(codes.data(), {2, 5, 8, 128}), v8 = k8;
    auto const k_scales = ix::bshd(scale_memory.data(), {2, 5, 8, 1}), v_scales = k_scales;
#include "readme_6.inc"
    auto const q = numbers<float>(8 * 32 * 128);
    auto out = nan_of(q.size());
    auto const runs = [&](auto const& kv, ix::index batch) {
        ix::shape4 const shape{batch, 1, 32, 128};
        ix::status const s = ix::attention(ix::bshd(q.data(), shape), kv, ix::bshd(out.data(), shape), ix::full{}, {.workspace = ix::allocate{}});
        EXPECT_TRUE(s.ok()) << s.message().c_str();
    };
    runs(cache, 8);
    EXPECT_TRUE(all_finite(out));
    runs(int8, 2);
    EXPECT_TRUE(all_finite(out));
}
