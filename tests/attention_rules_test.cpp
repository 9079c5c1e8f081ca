// A caller's own masks: whatever a rule says through keep, classify and kv_bounds, the result is the definition's.
#include <limits>
#include <vector>

#include "attention_cases.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;
using imbrex::coverage;
using imbrex::head_context;
using imbrex::kv_range;
using imbrex::position;
using imbrex::tile_window;

enum class shape { nothing, all_but_query_5, even_keys, from_key_900, band_of_20, second_sequence, causal };
enum class advice { none_given, exact };    // of classify and kv_bounds

// One type for all, so that the kernel is compiled once.
struct test_mask {
    shape form;
    advice given = advice::none_given;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const& q, K const& kv) const noexcept {
        Q const row = q - ctx.query_offset();
        switch (form) {
            case shape::nothing: return kv < K(0);
            case shape::all_but_query_5: return row != Q(5);
            case shape::even_keys: return (kv & K(1)) == K(0);
            case shape::from_key_900: return kv >= K(900);
            case shape::band_of_20: return kv + K(20) > q;
            case shape::second_sequence: return kv >= K(ctx.batch == 1 ? 0 : 1 << 30);
            case shape::causal: return kv <= q;
        }
        return kv < K(0);
    }
    coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        if (given == advice::none_given) return coverage::partial;
        bool any = false, all = true;
        for (position q = w.q_first; q <= w.q_last; ++q) {
            for (position kv = w.kv_begin; kv < w.kv_end; ++kv) {
                bool const seen = keep(ctx, q, kv);
                any = any || seen;
                all = all && seen;
            }
        }
        return !any ? coverage::none : all ? coverage::full : coverage::partial;
    }
    kv_range kv_bounds(head_context const& ctx, position, position) const noexcept { return {0, ctx.kv_len}; }
};
static_assert(imbrex::score_mask<test_mask>);

visibility visibility_of(shape form, attention_case const& c) {
    index const offset = c.kv_tokens - c.q_tokens;
    switch (form) {
        case shape::nothing: return [](index, index, index, index) { return false; };
        case shape::all_but_query_5: return [](index, index, index i, index) { return i != 5; };
        case shape::even_keys: return [](index, index, index, index j) { return j % 2 == 0; };
        case shape::from_key_900: return [](index, index, index, index j) { return j >= 900; };
        case shape::band_of_20: return [=](index, index, index i, index j) { return j > i + offset - 20; };
        case shape::second_sequence: return [](index b, index, index, index) { return b == 1; };
        case shape::causal: return sees_bottom_right(c.q_tokens, c.kv_tokens);
    }
    return {};
}

struct mask_case {
    test_mask mask;
    index q_tokens;
};

class AttentionRules : public Seeded {
protected:
    static imbrex::options with_lse(call_tensors<f32> const& t) { return {.lse = imbrex::bhs(t.lse.data(), t.q.view.shape)}; }

    // f(tensors of a finished call, case)
    template <class F>
    void for_each_unit_and_advice(shape form, attention_case c, F const& f) {
        for (index const q_tokens : {index{1}, index{6}, index{8}, index{90}}) {
            for (advice const given : {advice::none_given, advice::exact}) {
                c.q_tokens = q_tokens;
                SCOPED_TRACE(testing::Message() << c << (given == advice::exact ? ", classified" : ", not classified"));
                call_tensors<f32> const t{c};
                fill(t);
                ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, test_mask{form, given}, with_lse(t)));
                f(t, c);
            }
        }
    }

    template <class F>
    void expect_odd_rows_unused(F const& view_in) {
        for (float const poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            for_each_unit_and_advice(shape::even_keys, {.kv_tokens = 150, .q_heads = 2, .head_dim = 16}, [&](auto const& t, auto const& c) {
                SCOPED_TRACE(poison);
                for (index j = 1; j < c.kv_tokens; j += 2) std::fill_n(view_in(t).row(0, j, 0), c.head_dim, poison);
                ASSERT_OK(planned(t.q.view, t.kv(), t.out.view, test_mask{shape::even_keys}, with_lse(t)));
                expect_accurate(t, visibility_of(shape::even_keys, c));
            });
        }
    }

    static bool is_empty(call_tensors<f32> const& t, index b, index i, index h) {
        float const* const row = t.out.view.row(b, i, h);
        return std::all_of(row, row + t.out.view.shape.head_dim, [](float x) { return x == 0; }) &&
               *imbrex::bhs(t.lse.data(), t.q.view.shape).at(b, h, i) == -std::numeric_limits<float>::infinity();
    }
};

TEST_F(AttentionRules, MatchTheirDefinitionWhateverTheShortcutsSay) {
    for (shape const form : {shape::all_but_query_5, shape::even_keys, shape::from_key_900, shape::band_of_20, shape::second_sequence, shape::causal}) {
        SCOPED_TRACE(static_cast<int>(form));
        for_each_unit_and_advice(form, {.batch = 2, .kv_tokens = 1000, .q_heads = 2, .kv_heads = 2, .head_dim = 20}, [&](auto const& t, auto const& c) {
            expect_accurate(t, visibility_of(form, c), accuracy::strict);
        });
    }
}

TEST_F(AttentionRules, FullyMaskedRowIsZeroAndLseIsMinusInf) {
    for_each_unit_and_advice(shape::all_but_query_5, {.kv_tokens = 10, .q_heads = 2, .kv_heads = 2, .head_dim = 8}, [&](auto const& t, auto const& c) {
        for_each_row(t.out.view, [&](index b, index i, index h, float const*) { EXPECT_EQ(this->is_empty(t, b, i, h), i == 5) << "query " << i; });
        expect_accurate(t, visibility_of(shape::all_but_query_5, c), accuracy::strict);
    });
}

TEST_F(AttentionRules, AWhollyMaskedCallIsZeroWithAnyNumberOfKeys) {
    for (index const kv_tokens : {1, 16, 300, 1000}) {
        for (index const q_heads : {1, 8, 16}) {
            for_each_unit_and_advice(shape::nothing, {.kv_tokens = kv_tokens, .q_heads = q_heads, .head_dim = 16}, [&](auto const& t, auto const&) {
                for_each_row(t.out.view, [&](index b, index i, index h, float const*) { EXPECT_TRUE(this->is_empty(t, b, i, h)) << "query " << i; });
            });
        }
    }
}

TEST_F(AttentionRules, KeysAfterManyMaskedTilesCountInFull) {
    for_each_unit_and_advice(shape::from_key_900, {.kv_tokens = 901, .q_heads = 2, .head_dim = 16}, [&](auto const& t, auto const& c) {
        for_each_row(t.out.view, [&](index, index, index, float const* row) {
            for (index d = 0; d < c.head_dim; ++d) EXPECT_EQ(row[d], t.v.view.row(0, 900, 0)[d]);
        });
    });
}

TEST_F(AttentionRules, AMaskedSequenceLeavesItsBatchMateAlone) {
    for_each_unit_and_advice(shape::second_sequence, {.batch = 2, .kv_tokens = 150, .q_heads = 2, .head_dim = 16}, [&](auto const& t, auto const& c) {
        attention_case alone = c;
        alone.batch = 1;
        call_tensors<f32> const mate{alone};
        auto const second = [](auto const& from, auto const& to) { std::copy_n(from.memory.data() + to.memory.size(), to.memory.size(), to.memory.data()); };
        second(t.q, mate.q);
        second(t.k, mate.k);
        second(t.v, mate.v);
        ASSERT_OK(planned(mate, rule::full));
        EXPECT_EQ(std::memcmp(mate.out.memory.data(), t.out.memory.data() + mate.out.memory.size(), mate.out.memory.size() * sizeof(float)), 0);
        for_each_row(mate.out.view, [&](index, index i, index h, float const*) { EXPECT_TRUE(this->is_empty(t, 0, i, h)); });
    });
}

TEST_F(AttentionRules, AKeyThatNobodySeesBetweenSeenOnesIsNeverUsed) { expect_odd_rows_unused([](auto const& t) { return t.k.view; }); }

TEST_F(AttentionRules, AValueThatNobodySeesBetweenSeenOnesIsNeverUsed) { expect_odd_rows_unused([](auto const& t) { return t.v.view; }); }

}    // namespace
}    // namespace imbrex_test
