// merge.hpp: attention over parts of the keys becomes attention over all of them, in any order, and nothing else does.
#include "imbrex/merge.hpp"

#include <array>
#include <thread>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::errc;
using imbrex::f16;
using imbrex::partial_state;
using imbrex::row_stats_view;
using f32 = imbrex::precision<float>;
constexpr float infinite = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

// Keys [first, last) of a tensor.
template <class T>
tensor_view<T> keys_of(tensor_view<T> t, index first, index last) {
    return {t.row(0, first, 0), {t.shape.batch, last - first, t.shape.heads, t.shape.head_dim}, t.strides};
}

// One state of a merge, in memory of its own.
template <class T>
struct state {
    tensor<T> out;
    guarded<float> lse_memory;
    row_stats_view<float> lse;

    explicit state(shape4 shape, order o = order::bhsd)
        : out{shape, o},
          lse_memory{static_cast<std::size_t>(shape.batch * shape.tokens * shape.heads)},
          lse{imbrex::bhs(lse_memory.data(), shape)} {}
    partial_state<T> part() const { return {out.view, lse}; }
    void set(double o, float l) const {
        for (T& x : out.memory) x = imbrex::round_to<T>(o);
        std::ranges::fill(lse_memory, l);
    }
};

template <class T>
std::vector<partial_state<T>> parts_of(std::vector<state<T>> const& states) {
    std::vector<partial_state<T>> all;
    for (auto const& s : states) all.push_back(s.part());
    return all;
}

template <class T>
bool same_bits(state<T> const& a, state<T> const& b) {
    return same_bits(a.out.memory, b.out.memory) && same_bits(a.lse_memory, b.lse_memory);
}

class Merge : public Seeded {
protected:
    template <class T>
    state<T> random_state(shape4 shape, double lse_amplitude = 3) {
        state<T> s{shape};
        fill(s.out.view);
        for (float& l : s.lse_memory) l = static_cast<float>(lse_amplitude * normal());
        return s;
    }
    template <class T>
    static void expect_near(state<T> const& a, state<T> const& b, double tolerance) {
        for (std::size_t i = 0; i < a.out.memory.size(); ++i) ASSERT_NEAR(imbrex::to_double(a.out.memory[i]), imbrex::to_double(b.out.memory[i]), tolerance) << i;
        for (std::size_t i = 0; i < a.lse_memory.size(); ++i) ASSERT_LE(lse_error(a.lse_memory[i], b.lse_memory[i]), 1e-6) << i;
    }
    // Attention over the keys between each two cuts, of the rule that each part has.
    template <class P>
    static std::vector<state<typename P::output>> attend_parts(call_tensors<P> const& t, std::vector<index> const& cuts, std::vector<rule> const& rules) {
        std::vector<state<typename P::output>> states;
        for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
            states.emplace_back(t.out.view.shape, order::bshd);
            imbrex::dense_kv const kv{keys_of(t.k.view, cuts[i], cuts[i + 1]), keys_of(t.v.view, cuts[i], cuts[i + 1])};
            with_rule(rules[i], [&](auto const& r) { EXPECT_OK(imbrex::attention(t.q.view, kv, states.back().out.view, r, {.lse = states.back().lse, .workspace = imbrex::allocate{}})); });
        }
        return states;
    }
    template <class P>
    static imbrex::status merge_into(call_tensors<P> const& t, std::vector<state<typename P::output>> const& states) {
        return imbrex::merge(parts_of(states), t.out.view, imbrex::bhs(t.lse.data(), t.q.view.shape));
    }
};

TEST_F(Merge, PartsOfTheKeysGiveAttentionOverAllOfThem) {
    attention_case const c{.batch = 2, .q_tokens = 3, .kv_tokens = 211, .q_heads = 4, .kv_heads = 2, .head_dim = 37};
    call_tensors<f32> const t{c};
    call_tensors<imbrex::precision<float, bf16, bf16, bf16>> const low{c};
    fill(t);
    fill(low);
    std::vector<index> const cuts[] = {{0, 211}, {0, 100, 211}, {0, 1, 1, 64, 65, 200, 211}, {0, 0, 211, 211}};
    for (auto const& at : cuts) {
        std::vector<rule> const rules(at.size(), rule::full);
        ASSERT_OK(merge_into(t, attend_parts(t, at, rules)));
        expect_accurate(t, sees_everything());
    }
    std::vector<state<float>> states;    // f32 outputs of bf16 keys into a bf16 one
    for (index const first : {0, 100}) {
        states.emplace_back(low.out.view.shape);
        index const last = first == 0 ? 100 : 211;
        ASSERT_OK(imbrex::attention(low.q.view, imbrex::dense_kv{keys_of(low.k.view, first, last), keys_of(low.v.view, first, last)}, states.back().out.view, imbrex::full{},
                                    {.lse = states.back().lse, .workspace = imbrex::allocate{}}));
    }
    ASSERT_OK(imbrex::merge(parts_of(states), low.out.view, imbrex::bhs(low.lse.data(), low.q.view.shape)));
    expect_accurate(low, sees_everything());
}

TEST_F(Merge, PrefillThatTakesTheKeysInChunksIsCausalAttention) {
    call_tensors<f32> const t{{.q_tokens = 70, .kv_tokens = 300, .q_heads = 2, .kv_heads = 1, .head_dim = 64, .memory = order::bshd}};
    fill(t);
    ASSERT_OK(merge_into(t, attend_parts(t, {0, 128, 230, 300}, {rule::full, rule::full, rule::bottom_right})));
    expect_accurate(t, sees_bottom_right(70, 300));
}

// Five sequences share a prefix of 90 keys; their queries are the tokens of one sequence there. Each has a suffix of 17 of its own.
TEST_F(Merge, ACascadeIsAttentionOverPrefixAndSuffix) {
    constexpr index sequences = 5, prefix = 90, suffix = 17, all = prefix + suffix;
    attention_case const c{.batch = sequences, .q_tokens = 1, .kv_tokens = all, .q_heads = 4, .kv_heads = 2, .head_dim = 32, .memory = order::bshd};
    call_tensors<f32> const t{c};
    fill(t);
    for (index b = 1; b < sequences; ++b) {
        std::copy_n(t.k.view.row(0, 0, 0), prefix * 2 * 32, t.k.view.row(b, 0, 0));
        std::copy_n(t.v.view.row(0, 0, 0), prefix * 2 * 32, t.v.view.row(b, 0, 0));
    }
    auto const as_one = [](auto view) {
        view.strides.token = view.strides.batch;
        view.shape = {1, view.shape.batch, view.shape.heads, view.shape.head_dim};
        return view;
    };
    state<float> const shared{t.out.view.shape, order::bshd}, own{t.out.view.shape};
    row_stats_view<float> shared_lse = shared.lse;
    shared_lse.token_stride = shared_lse.batch_stride;
    tensor_view<float> first_k = keys_of(t.k.view, 0, prefix), first_v = keys_of(t.v.view, 0, prefix);
    first_k.shape.batch = first_v.shape.batch = 1;
    ASSERT_OK(imbrex::attention(as_one(t.q.view), imbrex::dense_kv{first_k, first_v}, as_one(shared.out.view), imbrex::full{}, {.lse = shared_lse, .workspace = imbrex::allocate{}}));
    ASSERT_OK(imbrex::attention(t.q.view, imbrex::dense_kv{keys_of(t.k.view, prefix, all), keys_of(t.v.view, prefix, all)}, own.out.view, imbrex::full{},
                                {.lse = own.lse, .workspace = imbrex::allocate{}}));
    ASSERT_OK(imbrex::merge(shared.part(), own.part(), t.out.view, imbrex::bhs(t.lse.data(), t.q.view.shape)));
    expect_accurate(t, sees_everything());
}

template <class T>
class MergeOf : public Merge {};
using types = testing::Types<float, double, bf16>;
TYPED_TEST_SUITE(MergeOf, types);

// Tails of vectors at forbidden pages; whatever is empty holds NaN.
TYPED_TEST(MergeOf, EmptyPartsChangeNoBitAndAreNotRead) {
    for (index const head_dim : {1, 15, 64, 131, 1024}) {
        shape4 const shape{2, 3, 2, head_dim};
        state<TypeParam> const a = this->template random_state<TypeParam>(shape), empty{shape}, merged{shape};
        std::ranges::fill(empty.lse_memory, -infinite);
        for (auto const& parts : {std::vector{a.part()}, {a.part(), empty.part()}, {empty.part(), a.part()}, {empty.part(), a.part(), empty.part(), empty.part()}}) {
            merged.out.memory.poison();
            ASSERT_OK(imbrex::merge(parts, merged.out.view, merged.lse));
            EXPECT_TRUE(same_bits(merged, a)) << head_dim;
        }
    }
}

TYPED_TEST(MergeOf, NoPartsAndEmptyPartsGiveZeroAndMinusInfinity) {
    shape4 const shape{1, 2, 3, 21};
    state<TypeParam> const empty{shape}, merged{shape}, expected{shape};
    std::ranges::fill(empty.lse_memory, -infinite);
    expected.set(0, -infinite);
    for (auto const& parts : {std::vector<partial_state<TypeParam>>{}, {empty.part()}, {empty.part(), empty.part()}}) {
        merged.set(7, 7);
        ASSERT_OK(imbrex::merge(parts, merged.out.view, merged.lse));
        EXPECT_TRUE(same_bits(merged, expected));
    }
}

TYPED_TEST(MergeOf, AnyOrderAndAnyGroupingGiveTheSameToRounding) {
    shape4 const shape{2, 5, 3, 40};
    double const tolerance = sizeof(TypeParam) == 8 ? 1e-6 : sizeof(TypeParam) == 4 ? 4e-6 : 6e-2;
    std::vector<state<TypeParam>> s;
    for (int i = 0; i < 4; ++i) s.push_back(this->template random_state<TypeParam>(shape));
    s[2].lse_memory[4] = s[3].lse_memory[4] = -infinite;
    state<TypeParam> const all{shape}, other{shape}, left{shape}, right{shape};
    ASSERT_OK(imbrex::merge(parts_of(s), all.out.view, all.lse));
    ASSERT_OK(imbrex::merge(std::array{s[3].part(), s[1].part(), s[0].part(), s[2].part()}, other.out.view, other.lse));
    this->expect_near(all, other, tolerance);
    ASSERT_OK(imbrex::merge(s[0].part(), s[1].part(), left.out.view, left.lse));
    ASSERT_OK(imbrex::merge(s[2].part(), s[3].part(), right.out.view, right.lse));
    ASSERT_OK(imbrex::merge(left.part(), right.part(), other.out.view, other.lse));
    this->expect_near(all, other, tolerance);
    ASSERT_OK(imbrex::merge(left.part(), s[2].part(), right.out.view, right.lse));
    ASSERT_OK(imbrex::merge(right.part(), s[3].part(), other.out.view, other.lse));
    this->expect_near(all, other, tolerance);
}

TYPED_TEST(MergeOf, APartMayBeTheOutputItself) {
    shape4 const shape{2, 70, 2, 40};
    for (std::size_t into = 0; into < 3; ++into) {
        std::vector<state<TypeParam>> s;
        for (int i = 0; i < 3; ++i) s.push_back(this->template random_state<TypeParam>(shape));
        state<TypeParam> const apart{shape};
        ASSERT_OK(imbrex::merge(parts_of(s), apart.out.view, apart.lse));
        ASSERT_OK(imbrex::merge(parts_of(s), s[into].out.view, s[into].lse));
        EXPECT_TRUE(same_bits(s[into], apart));
    }
}

struct tasks_backwards {
    static index max_workers() { return 5; }
    static void run(index n, imbrex::task_ref task) {
        for (index i = n - 1; i >= 0; --i) task(i);
    }
};
struct tasks_on_threads {
    static index max_workers() { return 3; }
    static void run(index n, imbrex::task_ref task) {
        std::vector<std::jthread> threads;
        for (index i = 0; i < n; ++i) threads.emplace_back([=] { task(i); });
    }
};

TEST_F(Merge, AnyExecutorGivesTheSameBits) {
    shape4 const shape{3, 67, 5, 16};
    std::array const parts{random_state<float>(shape), random_state<float>(shape)};
    state<float> const one{shape}, many{shape};
    ASSERT_OK(imbrex::merge(parts[0].part(), parts[1].part(), one.out.view, one.lse));
    tasks_backwards backwards;
    tasks_on_threads threads;
    for (imbrex::executor_ref const e : {imbrex::executor_ref{backwards}, imbrex::executor_ref{threads}}) {
        many.out.memory.poison();
        ASSERT_OK(imbrex::merge(parts[0].part(), parts[1].part(), many.out.view, many.lse, e));
        EXPECT_TRUE(same_bits(one, many));
    }
}

struct two_weights {
    float lse[2];
    double out;    // of 1 and 3
    float merged;
};

TEST_F(Merge, WeightsAreThoseOfTheLogSumExpHoweverFarApart) {
    float const most = std::numeric_limits<float>::max(), ln2 = 0.69314718f;
    two_weights const cases[] = {
        {{0, 0}, 2, ln2},
        {{1e38f, 1e38f}, 2, 1e38f},
        {{-1e38f, -1e38f}, 2, -1e38f},
        {{most, most}, 2, most},
        {{-most, -most}, 2, -most},
        {{most, -most}, 1, most},
        {{-most, most}, 3, most},
        {{-1e38f, -infinite}, 1, -1e38f},
        {{200, 0}, 1, 200},
        {{1000.f, 1000.f + ln2}, 7 / 3.0, 1001.0986f},
        {{infinite, 5}, 1, infinite},
        {{-infinite, infinite}, 3, infinite},
        {{infinite, infinite}, 2, infinite},
    };
    shape4 const shape{1, 1, 1, 19};
    state<float> const a{shape}, b{shape}, merged{shape};
    for (two_weights const& w : cases) {
        SCOPED_TRACE(testing::Message() << w.lse[0] << ", " << w.lse[1]);
        a.set(1, w.lse[0]);
        b.set(3, w.lse[1]);
        ASSERT_OK(imbrex::merge(a.part(), b.part(), merged.out.view, merged.lse));
        for (float const o : merged.out.memory) EXPECT_NEAR(o, w.out, 1e-4);    // 1000 + ln 2 is rounded
        EXPECT_FLOAT_EQ(merged.lse_memory[0], w.merged);
    }
}

TEST_F(Merge, NanStays) {
    shape4 const shape{1, 3, 1, 19};
    state<float> const a{shape}, b{shape}, merged{shape};
    for (bool const first : {true, false}) {
        a.set(1, 0);
        b.set(3, 0);
        state<float> const& spoilt = first ? a : b;
        spoilt.lse_memory[0] = nan;
        spoilt.out.view.row(0, 1, 0)[7] = nan;
        ASSERT_OK(imbrex::merge(a.part(), b.part(), merged.out.view, merged.lse));
        for (index d = 0; d < 19; ++d) {
            EXPECT_TRUE(std::isnan(merged.out.view.row(0, 0, 0)[d]));
            EXPECT_EQ(std::isnan(merged.out.view.row(0, 1, 0)[d]), d == 7);
            EXPECT_EQ(merged.out.view.row(0, 2, 0)[d], 2);
        }
        EXPECT_TRUE(std::isnan(merged.lse_memory[0]));
        EXPECT_FLOAT_EQ(merged.lse_memory[1], 0.69314718f);
    }
}

// Values of 1 give 1: weights add up.
TEST_F(Merge, OnesStayOnes) {
    shape4 const shape{1, 50, 1, 16};
    std::vector<state<float>> s;
    for (int i = 0; i < 40; ++i) {
        s.push_back(random_state<float>(shape));
        std::ranges::fill(s.back().out.memory, 1.f);
    }
    state<float> const merged{shape};
    ASSERT_OK(imbrex::merge(parts_of(s), merged.out.view, merged.lse));
    for (float const o : merged.out.memory) EXPECT_NEAR(o, 1, 40 * 0x1p-24);
}

class MergeRefusal : public testing::Test {
protected:
    static constexpr shape4 shape{2, 3, 2, 8};
    std::vector<float> block = std::vector<float>(2048, 0.25f);
    tensor_view<float> out = imbrex::bshd(block.data(), shape), a = imbrex::bshd(block.data() + 256, shape), b = imbrex::bshd(block.data() + 512, shape);
    row_stats_view<float> lse = imbrex::bhs(block.data() + 768, shape), lse_a = imbrex::bhs(block.data() + 800, shape), lse_b = imbrex::bhs(block.data() + 832, shape);
    imbrex::executor_ref executor{};

    imbrex::status call() const { return imbrex::merge(std::array{partial_state{a, lse_a}, partial_state{b, lse_b}}, out, lse, executor); }
    void expect_refused(errc code, std::vector<std::string> const& pieces) {
        std::vector<float> const before = block;
        imbrex::status const s = call();
        EXPECT_EQ(s.code(), code) << s.message().c_str();
        for (std::string const& piece : pieces) EXPECT_NE(s.message().view().find(piece), std::string_view::npos) << piece << " is not in: " << s.message().c_str();
        EXPECT_EQ(block, before);
    }
};

TEST_F(MergeRefusal, TheCaseThatIsSpoiltIsRight) {
    EXPECT_OK(call());
    lse = {};
    EXPECT_OK(call());
    shape4 const none{2, 0, 2, 8};
    out = a = b = imbrex::bshd<float>(nullptr, none);
    lse_a = lse_b = {};
    EXPECT_OK(call());
}

TEST_F(MergeRefusal, UnlikeShapes) {
    b.shape.tokens = 2;
    expect_refused(errc::part_shape, {"part 1's output", "2 on axis 1"});
    b.shape = {2, 3, 2, 7};
    expect_refused(errc::part_shape, {"part 1's output", "7 on axis 3"});
}

TEST_F(MergeRefusal, SizesThatCannotBe) {
    out.shape.heads = -1;
    expect_refused(errc::negative_size, {"output", "-1"});
    out.shape = {2, 3, 2, 2000};
    expect_refused(errc::head_dim_range, {"output", "2000"});
}

TEST_F(MergeRefusal, MemoryThatCannotBe) {
    a.data = nullptr;
    expect_refused(errc::null_data, {"part 0's output"});
    a = b;
    lse_b.data = nullptr;
    expect_refused(errc::null_data, {"part 1's lse"});
    lse_b = lse_a;
    b.strides.dim = 2;
    expect_refused(errc::dim_stride, {"part 1's output", "stride 2"});
    b.strides = {index{1} << 61, 16, 8, 1};
    expect_refused(errc::too_far, {"part 1's output"});
    b = a;
    lse_b.data = reinterpret_cast<float*>(reinterpret_cast<char*>(lse_b.data) + 1);
    expect_refused(errc::misaligned, {"part 1's lse", "4"});
    lse_b = lse_a;
    out.strides.token = 0;
    expect_refused(errc::output_self_overlap, {"output"});
    out = imbrex::bshd<float>(nullptr, shape);
    expect_refused(errc::null_data, {"output"});
}

TEST_F(MergeRefusal, OverlapThatIsNotInPlace) {
    a.data = out.data + 8;
    expect_refused(errc::part_overlap, {"part 0's output", "merged output", "in place"});
    a = imbrex::bhsd(out.data, shape);    // the same memory in another order
    expect_refused(errc::part_overlap, {"part 0's output"});
    a = out;
    lse_b.data = lse.data + 1;
    expect_refused(errc::part_overlap, {"part 1's lse", "merged lse"});
    lse_b.data = out.data;
    expect_refused(errc::part_overlap, {"part 1's lse", "merged output"});
    lse_b = lse;
    lse.data = b.data;
    expect_refused(errc::part_overlap, {"part 1's output", "merged lse"});
    lse.data = out.data;
    expect_refused(errc::lse_overlap, {"output"});
    lse = lse_b;
    EXPECT_OK(call());    // into part 0's output and part 1's lse
}

TEST_F(MergeRefusal, ADifferentTypeInTheSameMemory) {
    tensor_view<f16> const halves = imbrex::bshd(reinterpret_cast<f16*>(out.data), shape);
    EXPECT_EQ(imbrex::merge(std::array{partial_state{halves, lse_a}}, out).code(), errc::part_overlap);
}

TEST_F(MergeRefusal, AnExecutorWithoutWorkers) {
    struct {
        static index max_workers() { return 0; }
        static void run(index, imbrex::task_ref) { FAIL(); }
    } none;
    executor = none;
    expect_refused(errc::no_workers, {"max_workers() = 0"});
}

}    // namespace
}    // namespace imbrex_test
