// Attention on the adaptors' threads: the bits of the serial call, in both phases of a call and from several callers at once.
#include "imbrex/imbrex.hpp"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "executors/contract.hpp"
#include "executors/pool.hpp"
#include "imbrex/executors/submit.hpp"
#include "imbrex/executors/thread_team.hpp"

namespace {

using imbrex::index;
using imbrex::shape4;

// Causal GQA on rows that lie far apart, so that kv heads are copied first: two phases, and more kv heads than workers.
struct problem {
    shape4 q_shape, kv_shape;
    std::vector<float> q = filled(q_shape, 1), k = filled(kv_shape, 2), v = filled(kv_shape, 3);

    static std::vector<float> filled(shape4 shape, unsigned seed) {
        std::mt19937 random{seed};
        std::normal_distribution<float> normal;
        std::vector<float> values(static_cast<std::size_t>(shape.elements()));
        for (float& x : values) x = normal(random);
        return values;
    }
    std::vector<float> attend(imbrex::executor_ref executor) const {
        std::vector<float> out(q.size(), -7.f),
            lse(static_cast<std::size_t>(q_shape.batch * q_shape.tokens * q_shape.heads), -7.f);
        imbrex::status const s = imbrex::attention(
            imbrex::bshd(q.data(), q_shape), imbrex::dense_kv{imbrex::bshd(k.data(), kv_shape), imbrex::bshd(v.data(), kv_shape)},
            imbrex::bshd(out.data(), q_shape), imbrex::causal{imbrex::align::bottom_right},
            {.lse = imbrex::bhs(lse.data(), q_shape), .executor = executor, .workspace = imbrex::allocate{}});
        EXPECT_TRUE(s.ok()) << s.message().c_str();
        out.insert(out.end(), lse.begin(), lse.end());
        return out;
    }
};

problem const prefill{{1, 150, 8, 64}, {1, 170, 4, 64}};
problem const decode{{3, 1, 8, 64}, {3, 333, 4, 64}};

template <class Executor>
void expect_bits_of_serial(Executor& executor) {
    for (problem const* p : {&prefill, &decode}) {
        std::vector<float> const serial = p->attend({});
        for (int round = 0; round < 2; ++round) ASSERT_EQ(p->attend(executor), serial);
    }
}

TEST(AttentionOnThreads, PrefillHasTwoPhases) {
    shape4 const& q = prefill.q_shape;
    std::vector<float> out(prefill.q.size());
    imbrex::plan p;
    imbrex::dense_kv const kv{imbrex::bshd(prefill.k.data(), prefill.kv_shape), imbrex::bshd(prefill.v.data(), prefill.kv_shape)};
    ASSERT_TRUE(imbrex::plan_for(imbrex::bshd(prefill.q.data(), q), kv, imbrex::bshd(out.data(), q), p).ok());
    EXPECT_GT(p.copy_bytes, 0) << "these tests mean to run the prepare phase too";
}

TEST(AttentionOnThreads, OfATeamHasTheBitsOfTheSerialCall) {
    for (int const threads : {1, 2, 3, 7}) {
        imbrex::thread_team team{threads};
        expect_bits_of_serial(team);
    }
}

TEST(AttentionOnThreads, OfATeamThatSeveralCallersShareHasTheBitsOfTheSerialCall) {
    imbrex::thread_team team{3};
    std::vector<float> const serial = prefill.attend({});
    imbrex_test::on_threads(3, [&](int) {
        for (int round = 0; round < 3; ++round) EXPECT_EQ(prefill.attend(team), serial);
    });
}

TEST(AttentionOnThreads, OfAPoolHasTheBitsOfTheSerialCall) {
    for (int const threads : {1, 3}) {
        imbrex_test::pool p{threads};
        auto executor = imbrex_test::executor_on(p, 4);
        expect_bits_of_serial(executor);
    }
}

TEST(AttentionOnThreads, OfAPoolWhoseOwnThreadsCallHasTheBitsOfTheSerialCall) {
    std::vector<float> const serial = prefill.attend({});
    imbrex_test::pool p{2};
    auto executor = imbrex_test::executor_on(p, 4);
    std::atomic<int> done{0};
    for (int call = 0; call < 6; ++call) {
        p.submit([&] {
            EXPECT_EQ(prefill.attend(executor), serial);
            ++done;
        });
    }
    while (done < 6) std::this_thread::yield();
}

}    // namespace
