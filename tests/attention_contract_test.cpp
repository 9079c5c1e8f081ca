// A refused call ends before any access: all its tensors and its workspace lie in forbidden memory here, so that one read or write
// would end the test. (The sentences are in attention_errors_test.cpp.)
#include <sys/mman.h>

#include <functional>
#include <limits>
#include <string>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;
using imbrex::errc;

// Addresses that exist and may not be touched.
class forbidden {
public:
    forbidden() : base_{mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)} {
        if (base_ == MAP_FAILED) std::abort();
    }
    forbidden(forbidden const&) = delete;
    forbidden& operator=(forbidden const&) = delete;
    ~forbidden() { munmap(base_, bytes); }

    float* data() const { return static_cast<float*>(base_); }
    std::span<std::byte> all() const { return {static_cast<std::byte*>(base_), bytes}; }

private:
    static constexpr std::size_t bytes = std::size_t{1} << 24;
    void* base_;
};

struct crew {
    index workers;
    static void run(index, imbrex::task_ref) { ADD_FAILURE() << "a refused call ran work"; }
    index max_workers() const { return workers; }
};

// A call that nothing is wrong with, but for where its memory is.
struct call {
    forbidden memory[6];
    tensor_view<float> q = imbrex::bshd(memory[0].data(), {2, 20, 4, 16});
    tensor_view<float> k = imbrex::bshd(memory[1].data(), {2, 30, 2, 16});
    tensor_view<float> v = imbrex::bshd(memory[2].data(), {2, 30, 2, 24});
    tensor_view<float> out = imbrex::bshd(memory[3].data(), {2, 20, 4, 24});
    crew executor{1};
    imbrex::options o{.lse = imbrex::bhs(memory[4].data(), {2, 20, 4, 16}), .executor = executor, .workspace = memory[5].all()};

    imbrex::status run() const { return imbrex::attention(q, imbrex::dense_kv{k, v}, out, imbrex::full{}, o); }
};

struct misuse {
    char const* name;
    errc code;
    void (*commit)(call&);
};

class AttentionContract : public testing::TestWithParam<misuse> {};

TEST_P(AttentionContract, IsHeldOrRefusedBeforeAnyAccess) {
    call c;
    GetParam().commit(c);
    imbrex::status const s = c.run();
    EXPECT_EQ(s.code(), GetParam().code) << s.message().c_str();
}

misuse const misuses[] = {
    {"NegativeSize", errc::negative_size, [](call& c) { c.k.shape.tokens = c.v.shape.tokens = -1; }},
    {"TwoToThe31Keys", errc::too_long, [](call& c) { c.k.shape.tokens = c.v.shape.tokens = index{1} << 31; }},
    {"HeadDimOver1024", errc::head_dim_range, [](call& c) { c.v.shape.head_dim = c.out.shape.head_dim = 1025; }},
    {"HeadDimsThatDiffer", errc::head_dim_mismatch, [](call& c) { c.k.shape.head_dim = 17; }},
    {"HeadsThatDoNotDivide", errc::heads_not_divisible, [](call& c) { c.k.shape.heads = c.v.shape.heads = 3; }},
    {"KeyAndValueHeadsThatDiffer", errc::kv_heads_mismatch, [](call& c) { c.v.shape.heads = 4; }},
    {"KeyAndValueTokensThatDiffer", errc::kv_tokens_mismatch, [](call& c) { c.v.shape.tokens = 31; }},
    {"BatchesThatDiffer", errc::batch_mismatch, [](call& c) { c.k.shape.batch = 3; }},
    {"OutputOfAnotherShape", errc::output_shape, [](call& c) { c.out.shape.tokens = 19; }},
    {"TransposedQueries", errc::dim_stride, [](call& c) { c.q.strides.dim = 20; }},
    {"TransposedOutput", errc::dim_stride, [](call& c) { c.out.strides.dim = 20; }},
    {"NullKeys", errc::null_data, [](call& c) { c.k.data = nullptr; }},
    {"MisalignedValues", errc::misaligned, [](call& c) { c.v.data = reinterpret_cast<float*>(reinterpret_cast<char*>(c.v.data) + 2); }},
    {"OutputRowsOnOneAddress", errc::output_self_overlap, [](call& c) { c.out.strides.token = 0; }},
    {"OutputRowsThatOverlap", errc::output_self_overlap, [](call& c) { c.out.strides.head = 23; }},
    {"OutputOnTheLastKey", errc::output_overlaps_input, [](call& c) { c.out.data = c.k.row(1, 29, 1) + 15; }},
    {"OutputEndingOnTheFirstValue", errc::output_overlaps_input, [](call& c) { c.v.data = c.out.row(1, 19, 3) + 23; }},
    {"LseOnTheLastQuery", errc::lse_overlap, [](call& c) { c.o.lse.data = c.q.row(1, 19, 3) + 15; }},
    {"NanScale", errc::scale_not_finite, [](call& c) { c.o.scale = std::numeric_limits<double>::quiet_NaN(); }},
    {"NoWorkers", errc::no_workers, [](call& c) { c.executor.workers = 0; }},
    {"NoWorkspace", errc::workspace_too_small, [](call& c) { c.o.workspace = {}; }},
    {"SmallWorkspace", errc::workspace_too_small, [](call& c) { c.o.workspace = c.memory[5].all().first(100); }},
    {"NoQueriesIsNoMisuse", errc::ok, [](call& c) { c.q.shape.tokens = c.out.shape.tokens = 0; }},
    {"NoBatchIsNoMisuse", errc::ok, [](call& c) { c.q.shape.batch = c.k.shape.batch = c.v.shape.batch = c.out.shape.batch = 0; }},
    {"NoHeadsIsNoMisuse", errc::ok, [](call& c) { c.q.shape.heads = c.k.shape.heads = c.v.shape.heads = c.out.shape.heads = 0; }},
};
std::string name_of_misuse(testing::TestParamInfo<misuse> const& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Misuse, AttentionContract, testing::ValuesIn(misuses), name_of_misuse);

// The error tells what to pass, and that is enough; one byte less is not.
TEST(AttentionWorkspace, TheErrorTellsTheBytesThatSuffice) {
    for (index const q_tokens : {1, 50}) {
        attention_case const c{.q_tokens = q_tokens, .kv_tokens = 20, .q_heads = 2, .head_dim = 8};
        call_tensors<f32> const t{c};
        for (auto const* const m : {&t.q.memory, &t.k.memory, &t.v.memory}) std::ranges::fill(*m, 1.0f);
        auto const with = [&](std::span<std::byte> workspace) {
            return imbrex::attention(t.q.view, t.kv(), t.out.view, imbrex::full{}, {.workspace = workspace});
        };
        imbrex::status const s = with({});
        ASSERT_EQ(s.code(), errc::workspace_too_small);
        guarded<std::byte> const enough{static_cast<std::size_t>(s.value(1))};
        EXPECT_EQ(with({enough.data() + 1, enough.size() - 1}).code(), errc::workspace_too_small);
        EXPECT_TRUE(t.out.memory.poisoned() && enough.poisoned());
        EXPECT_OK(with({enough.data(), enough.size()}));
        for (float const x : t.out.memory) EXPECT_EQ(x, 1.0f);
    }
}

// The pages around every tensor of these tests do fault.
TEST(GuardDeathTest, AnAccessBesideTheElementsEndsTheProcess) {
    guarded<float> const ends{5, guard::after}, begins{5, guard::before}, none{0};
    EXPECT_DEATH(ends.data()[5] = 0, "");
    EXPECT_DEATH(begins.data()[-1] = 0, "");
    EXPECT_DEATH(none.data()[0] = 0, "");
    ends.data()[4] = begins.data()[0] = 0;
    EXPECT_FALSE(ends.poisoned());
}

}    // namespace
}    // namespace imbrex_test
