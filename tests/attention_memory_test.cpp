// The heap is left alone: a call with a workspace allocates nothing, one with allocate{} takes one block and gives it back.
// This program's own malloc and its kin count, for as long as they are told to.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "varlen_cases.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define IMBREX_TEST_FOREIGN_HEAP
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define IMBREX_TEST_FOREIGN_HEAP
#endif

namespace {

struct heap_use {
    std::atomic<bool> counting{false};
    std::atomic<bool> failing{false};
    std::atomic<std::size_t> allocations{0};
    std::atomic<std::size_t> frees{0};
    std::atomic<std::size_t> largest{0};

    bool allocation(std::size_t bytes) noexcept {    // whether it may succeed
        if (!counting) return true;
        ++allocations;
        if (bytes > largest) largest = bytes;
        return !failing;
    }
    void free(void* p) noexcept {
        if (counting && p != nullptr) ++frees;
    }
};
constinit heap_use heap;

}    // namespace

#if !defined(IMBREX_TEST_FOREIGN_HEAP)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) { return heap.allocation(bytes) ? __libc_malloc(bytes) : nullptr; }
void* calloc(std::size_t n, std::size_t bytes) { return heap.allocation(n * bytes) ? __libc_calloc(n, bytes) : nullptr; }
void* realloc(void* p, std::size_t bytes) { return heap.allocation(bytes) ? __libc_realloc(p, bytes) : nullptr; }
void* memalign(std::size_t alignment, std::size_t bytes) { return heap.allocation(bytes) ? __libc_memalign(alignment, bytes) : nullptr; }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** p, std::size_t alignment, std::size_t bytes) {
    *p = memalign(alignment, bytes);
    return *p == nullptr ? ENOMEM : 0;
}
void free(void* p) {
    heap.free(p);
    __libc_free(p);
}
}
#endif

namespace imbrex_test {
namespace {

using imbrex::bf16;
using f32 = imbrex::precision<float>;
using mixed = imbrex::precision<float, bf16, bf16, float>;

struct counted {
    std::size_t allocations, frees, largest;
};

template <class F>
counted count_heap_use(F const& f) {
    heap.allocations = heap.frees = heap.largest = 0;
    heap.counting = true;
    f();
    heap.counting = false;
    return {heap.allocations, heap.frees, heap.largest};
}

class AttentionMemory : public Seeded {
protected:
    void SetUp() override {
#if defined(IMBREX_TEST_FOREIGN_HEAP)
        GTEST_SKIP() << "a sanitizer or another C library owns malloc here";
#endif
    }
};

attention_case const cases[] = {
    {.q_tokens = 1, .kv_tokens = 200, .q_heads = 4, .kv_heads = 2, .head_dim = 37, .sees = rule::bottom_right},
    {.batch = 2, .q_tokens = 90, .kv_tokens = 200, .q_heads = 2, .kv_heads = 1, .head_dim = 37, .sees = rule::full},
    {.q_tokens = 300, .kv_tokens = 200, .q_heads = 16, .kv_heads = 16, .head_dim = 64, .sees = rule::top_left, .memory = order::bshd},
};

// Tasks one after another.
struct three_workers {
    static index max_workers() { return 3; }
    static void run(index n, imbrex::task_ref task) {
        for (index i = 0; i < n; ++i) task(i);
    }
};

template <class P>
imbrex::status call(call_tensors<P> const& t, rule r, imbrex::options o) {
    o.lse = imbrex::bhs(t.lse.data(), t.q.view.shape);
    return with_rule(r, [&](auto const& rule) { return imbrex::attention(t.q.view, t.kv(), t.out.view, rule, o); });
}

template <class P>
std::size_t bytes_for(call_tensors<P> const& t, index workers) {
    imbrex::plan p;
    EXPECT_OK(imbrex::plan_for(t.q.view, t.kv(), t.out.view, p));
    return imbrex::workspace_bytes(p, workers);
}

// Keeps the compiler from dropping a pair of allocation and release.
void keep(void* p) { asm volatile("" : : "g"(p) : "memory"); }

TEST_F(AttentionMemory, AllocationsOfEveryKindAreCounted) {
    auto const one = [](auto const& take, auto const& give) {
        counted const use = count_heap_use([&] {
            void* const p = take();
            keep(p);
            give(p);
        });
        EXPECT_EQ(use.allocations, 1u);
        EXPECT_EQ(use.frees, 1u);
        EXPECT_EQ(use.largest, 256u);
    };
    auto const free = [](void* p) { std::free(p); };
    one([] { return std::malloc(256); }, free);
    one([] { return std::calloc(16, 16); }, free);
    one([] { return std::aligned_alloc(64, 256); }, free);
    one([] { return ::operator new(256); }, [](void* p) { ::operator delete(p); });
    one([] { return ::operator new(256, std::align_val_t{128}); }, [](void* p) { ::operator delete(p, std::align_val_t{128}); });
}

template <class P>
void expect_no_heap(call_tensors<P> const& t, rule r) {
    three_workers executor;
    guarded<std::byte> workspace{bytes_for(t, 3)};
    imbrex::status s[3];
    counted const use = count_heap_use([&] {
        s[0] = call(t, r, {.executor = executor, .workspace = workspace});
        s[1] = call(t, r, {.workspace = workspace});
        s[2] = call(t, r, {});
        (void)s[2].message();
    });
    EXPECT_OK(s[0]);
    EXPECT_OK(s[1]);
    EXPECT_EQ(s[2].code(), imbrex::errc::workspace_too_small);
    EXPECT_EQ(use.allocations, 0u);
    EXPECT_EQ(use.frees, 0u);
}

TEST_F(AttentionMemory, ACallWithAWorkspaceLeavesTheHeapAlone) {
    for (attention_case const& c : cases) {
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<f32> const t{c};
        fill(t);
        expect_no_heap(t, c.sees);
        call_tensors<mixed> const m{c};
        fill(m);
        expect_no_heap(m, c.sees);
    }
}

// Sorting by length needs no memory of its own either.
TEST_F(AttentionMemory, APackedCallWithAWorkspaceLeavesTheHeapAlone) {
    varlen_case const c{.name = "",
                        .q_starts = starts_of({1, 300, 0, 40, 290, 3}),
                        .kv_starts = starts_of({80, 300, 9, 40, 0, 500}),
                        .q_tokens = 634,
                        .kv_tokens = 929,
                        .q_heads = 4,
                        .kv_heads = 4,
                        .head_dim = 64};
    packed_tensors<f32> const t{c};
    fill(t.q.view);
    fill(t.k.view);
    fill(t.v.view);
    imbrex::plan p;
    ASSERT_OK(imbrex::plan_for(t.queries(), t.kv(), t.out.view, p));
    ASSERT_TRUE(p.copies(300) && !p.copies(40));
    three_workers executor;
    guarded<std::byte> workspace{imbrex::workspace_bytes(p, 3)};
    imbrex::status s;
    counted const use = count_heap_use([&] {
        s = imbrex::attention(p, t.queries(), t.kv(), t.out.view, imbrex::full{}, {.executor = executor, .workspace = workspace});
    });
    EXPECT_OK(s);
    EXPECT_EQ(use.allocations, 0u);
    EXPECT_EQ(use.frees, 0u);
}

TEST_F(AttentionMemory, AllocateTakesOneBlockOfTheWorkspacesSizeAndGivesItBack) {
    for (attention_case const& c : cases) {
        SCOPED_TRACE(testing::Message() << c);
        call_tensors<f32> const t{c};
        fill(t);
        three_workers executor;
        std::size_t const bytes = bytes_for(t, 3);
        imbrex::status s;
        counted const use = count_heap_use([&] { s = call(t, c.sees, {.executor = executor, .workspace = imbrex::allocate{}}); });
        ASSERT_OK(s);
        expect_accurate(t, visibility_of(c));
        EXPECT_EQ(use.allocations, 1u);
        EXPECT_EQ(use.frees, 1u);
        EXPECT_GE(use.largest, bytes);
        EXPECT_LE(use.largest, bytes + imbrex::cache_line_bytes);
    }
}

TEST_F(AttentionMemory, ARefusedOrEmptyCallAllocatesNothingThoughItMay) {
    attention_case c = cases[1];
    call_tensors<f32> const t{c};
    c.q_tokens = 0;
    call_tensors<f32> const empty{c};
    imbrex::status refused, fine;
    counted const use = count_heap_use([&] {
        refused = call(t, c.sees, {.scale = HUGE_VAL, .workspace = imbrex::allocate{}});
        fine = call(empty, c.sees, {.workspace = imbrex::allocate{}});
    });
    EXPECT_EQ(refused.code(), imbrex::errc::scale_not_finite);
    EXPECT_OK(fine);
    EXPECT_EQ(use.allocations, 0u);
}

TEST_F(AttentionMemory, AFailedAllocationIsAnErrorAndWritesNothing) {
    for (attention_case const& c : cases) {
        call_tensors<f32> const t{c};
        fill(t);
        imbrex::status s;
        heap.failing = true;
        counted const use = count_heap_use([&] { s = call(t, c.sees, {.workspace = imbrex::allocate{}}); });
        heap.failing = false;
        EXPECT_EQ(use.allocations, 1u);
        EXPECT_EQ(s.code(), imbrex::errc::out_of_memory) << s.message().c_str();
        EXPECT_EQ(s.value(0), static_cast<std::int64_t>(bytes_for(t, 1)));
        EXPECT_TRUE(t.out.memory.poisoned() && t.lse.poisoned());
    }
}

}    // namespace
}    // namespace imbrex_test
