// Each family of masks through attention(), against the reference with its own idea of what is visible.
#include "attention_masks.hpp"

namespace imbrex_test {
namespace {

using f32 = imbrex::precision<float>;
using bf16 = imbrex::precision<imbrex::bf16>;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <class P>
imbrex::status attend(call_tensors<P> const& t, any_mask const& rule) {
    return planned(t.q.view, t.kv(), t.out.view, rule, {.lse = imbrex::bhs(t.lse.data(), t.q.view.shape)});
}

class AttentionMasks : public Seeded {
protected:
    // f(case, mask): queries for the narrow unit and for the wide one, more of them than keys too, and keys for several tiles.
    template <class F>
    static void for_each_mask(F const& f) {
        struct {
            index q, kv;
#if defined(__SANITIZE_ADDRESS__) || defined(__aarch64__)    // there it is an emulator that CI runs
        } const lengths[] = {{5, 150}, {70, 131}};    // the others take minutes there
#else
        } const lengths[] = {{1, 150}, {5, 150}, {8, 300}, {70, 131}, {150, 70}, {130, 600}};
#endif
        for (auto const& n : lengths) {
            attention_case const c{.batch = 2, .q_tokens = n.q, .kv_tokens = n.kv, .q_heads = 4, .kv_heads = 2, .head_dim = 20};
            masks_for const masks{c};
            for (named_mask const& m : masks.all()) {
                SCOPED_TRACE(testing::Message() << m.name << ", " << c);
                f(c, m);
            }
        }
    }

    template <class P>
    void expect_right(attention_case const& c, named_mask const& m) {
        call_tensors<P> const t{c};
        fill(t);
        ASSERT_OK(attend(t, m.rule));
        expect_accurate(t, m.sees);
    }

    // A call of one head, keys and queries as many as said.
    static attention_case small(index q_tokens, index kv_tokens) { return {.q_tokens = q_tokens, .kv_tokens = kv_tokens, .head_dim = 8}; }

    template <class P>
    static bool is_zero(call_tensors<P> const& t, index b, index i, index h) {
        auto const* const row = t.out.view.row(b, i, h);
        bool const zero = std::all_of(row, row + t.out.view.shape.head_dim, [](auto x) { return imbrex::to_double(x) == 0; });
        return zero && *imbrex::bhs(t.lse.data(), t.q.view.shape).at(b, h, i) == -std::numeric_limits<float>::infinity();
    }
};

TEST_F(AttentionMasks, MatchTheReferenceInF32) {
    for_each_mask([&](attention_case const& c, named_mask const& m) { expect_right<f32>(c, m); });
}

TEST_F(AttentionMasks, MatchTheReferenceInBf16) {
    for_each_mask([&](attention_case const& c, named_mask const& m) { expect_right<bf16>(c, m); });
}

TEST_F(AttentionMasks, MatchTheReferenceInF16) {
    for_each_mask([&](attention_case const& c, named_mask const& m) { expect_right<imbrex::precision<imbrex::f16>>(c, m); });
}

TEST_F(AttentionMasks, MatchTheReferenceInF64) {
    for_each_mask([&](attention_case const& c, named_mask const& m) { expect_right<imbrex::precision<double>>(c, m); });
}

TEST_F(AttentionMasks, MatchTheReferenceInF32OnBf16) {
    using mixed = imbrex::precision<float, imbrex::bf16, imbrex::bf16, float>;
    for_each_mask([&](attention_case const& c, named_mask const& m) { expect_right<mixed>(c, m); });
}

TEST_F(AttentionMasks, KeysAndValuesThatNoQuerySeesAreNeverUsed) {
    index poisoned = 0;
    for_each_mask([&](attention_case const& c, named_mask const& m) {
        call_tensors<f32> const t{c}, with_nan{c};
        fill(t);
        std::ranges::copy(t.q.memory, with_nan.q.memory.data());
        std::ranges::copy(t.k.memory, with_nan.k.memory.data());
        std::ranges::copy(t.v.memory, with_nan.v.memory.data());
        index const group = c.q_heads / c.kv_heads;
        for_each_row(with_nan.k.view, [&](index b, index j, index h, float* key) {
            for (index i = 0; i < c.q_tokens * group; ++i) {
                if (m.sees(b, h * group + i % group, i / group, j)) return;
            }
            std::fill_n(key, c.head_dim, nan);
            std::fill_n(with_nan.v.view.row(b, j, h), c.head_dim, nan);
            ++poisoned;
        });
        ASSERT_OK(attend(t, m.rule));
        ASSERT_OK(attend(with_nan, m.rule));
        EXPECT_TRUE(same_bits(t.out.memory, with_nan.out.memory) && same_bits(t.lse, with_nan.lse));
    });
    EXPECT_GT(poisoned, 1000);
}

TEST_F(AttentionMasks, ARowOfFalseIsZeroAndTheOthersFinite) {
    attention_case const c{.q_tokens = 6, .kv_tokens = 10, .q_heads = 2, .kv_heads = 2, .head_dim = 8};
    bool mask[6][10];
    for (auto& row : mask) std::fill(row, row + 10, &row != &mask[5]);
    call_tensors<f32> const t{c};
    fill(t);
    ASSERT_OK(attend(t, {imbrex::mask_tensor{imbrex::score_matrix(&mask[0][0], {1, 1, 6, 10})}}));
    for_each_row(t.out.view, [&](index b, index i, index h, float const*) { EXPECT_EQ(is_zero(t, b, i, h), i == 5); });
    expect_accurate(t, [](index, index, index i, index) { return i != 5; });
}

TEST_F(AttentionMasks, RowsOutsideATrueCornerAreZero) {
    bool mask[8][8];
    for (int i = 0; i < 64; ++i) mask[i / 8][i % 8] = i / 8 < 4 && i % 8 < 4;
    call_tensors<f32> const t{small(8, 8)};
    fill(t);
    ASSERT_OK(attend(t, {imbrex::mask_tensor{imbrex::score_matrix(&mask[0][0], {1, 1, 8, 8})}}));
    for_each_row(t.out.view, [&](index b, index i, index h, float const*) { EXPECT_EQ(is_zero(t, b, i, h), i >= 4); });
    expect_accurate(t, [](index, index, index i, index j) { return i < 4 && j < 4; });
}

TEST_F(AttentionMasks, ASequenceWithoutKeysIsZeroAndItsBatchMateUnchanged) {
    for (index const q_tokens : {1, 6, 90}) {
        attention_case c{.batch = 2, .q_tokens = q_tokens, .kv_tokens = 40, .q_heads = 2, .head_dim = 8};
        position const lengths[] = {0, 33};
        call_tensors<f32> const t{c};
        fill(t);
        ASSERT_OK(attend(t, {imbrex::key_lengths{lengths}}));
        c.batch = 1;
        call_tensors<f32> const alone{c};
        auto const second = [](auto const& from, auto const& to) { std::copy_n(from.memory.data() + to.memory.size(), to.memory.size(), to.memory.data()); };
        second(t.q, alone.q);
        second(t.k, alone.k);
        second(t.v, alone.v);
        ASSERT_OK(attend(alone, {imbrex::key_lengths{std::span{lengths}.last(1)}}));
        for_each_row(alone.out.view, [&](index, index i, index h, float const*) { EXPECT_TRUE(is_zero(t, 0, i, h)); });
        EXPECT_EQ(std::memcmp(alone.out.memory.data(), t.out.memory.data() + alone.out.memory.size(), alone.out.memory.size() * sizeof(float)), 0);
    }
}

TEST_F(AttentionMasks, GroupedDecodeWithAllOfManyKeysMaskedIsZero) {
    attention_case const c{.kv_tokens = 700, .q_heads = 8, .kv_heads = 2, .head_dim = 16};
    bool const hidden = false;
    call_tensors<f32> const t{c};
    fill(t);
    ASSERT_OK(attend(t, {imbrex::mask_tensor{imbrex::score_matrix(&hidden, {})}}));
    for_each_row(t.out.view, [&](index b, index i, index h, float const*) { EXPECT_TRUE(is_zero(t, b, i, h)); });
}

TEST_F(AttentionMasks, ANanInAMaskedKeyIsAsIfTheKeyWereNotThere) {
    attention_case c{.q_tokens = 2, .kv_tokens = 2, .head_dim = 4};
    bool const mask[] = {true, false};
    call_tensors<f32> const t{c};
    fill(t);
    t.k.view.row(0, 1, 0)[0] = nan;
    ASSERT_OK(attend(t, {imbrex::mask_tensor{imbrex::score_matrix(mask, {1, 1, 1, 2})}}));
    for_each_row(t.out.view, [&](index, index, index, float const* row) { EXPECT_TRUE(std::equal(row, row + 4, t.v.view.row(0, 0, 0))); });
}

TEST_F(AttentionMasks, WhatLiesBeyondASequencesLengthIsIgnored) {
    attention_case const c{.batch = 2, .q_tokens = 3, .kv_tokens = 3, .head_dim = 8};
    position const lengths[] = {1, 3};
    call_tensors<f32> const t{c};
    fill(t);
    for (auto const& view : {t.k.view, t.v.view}) std::fill_n(view.row(0, 1, 0), 2 * 8, nan);
    ASSERT_OK(attend(t, {imbrex::key_lengths{lengths}}));
    expect_accurate(t, [](index b, index, index, index j) { return b == 1 || j == 0; });
}

TEST_F(AttentionMasks, KeysWhollyBeforeTheWindowAreIgnored) {
    for (index const q_tokens : {1, 4, 40}) {
        attention_case const c{.q_tokens = q_tokens, .kv_tokens = 300, .q_heads = 2, .head_dim = 8};
        call_tensors<f32> const t{c};
        fill(t);
        index const before = 300 - q_tokens - 20;
        for (auto const& view : {t.k.view, t.v.view}) std::fill_n(view.row(0, 0, 0), before * 8, nan);
        ASSERT_OK(attend(t, {imbrex::window{.left = 20, .right = 0}}));
        expect_accurate(t, [=](index, index, index i, index j) { return j <= i + 300 - q_tokens && j >= i + 300 - q_tokens - 20; });
    }
}

TEST_F(AttentionMasks, AWindowOfTwoKeysAtPositionFiveSeesKeysFourAndFive) {
    call_tensors<f32> const t{small(1, 6)};
    fill(t);
    for (auto const& view : {t.k.view, t.v.view}) std::fill_n(view.row(0, 0, 0), 4 * 8, nan);
    ASSERT_OK(attend(t, {imbrex::window{.left = 1, .right = 0}}));
    expect_accurate(t, [](index, index, index, index j) { return j == 4 || j == 5; });
}

TEST_F(AttentionMasks, AWindowOverAllKeysOnTheLeftIsCausalBitForBit) {
    for (auto const& [q_tokens, kv_tokens] : {std::pair<index, index>{1, 300}, {6, 6}, {8, 300}, {300, 300}, {90, 700}}) {
        attention_case const c{.q_tokens = q_tokens, .kv_tokens = kv_tokens, .q_heads = 2, .head_dim = 32};
        call_tensors<f32> const t{c}, u{c};
        fill(t);
        std::ranges::copy(t.q.memory, u.q.memory.data());
        std::ranges::copy(t.k.memory, u.k.memory.data());
        std::ranges::copy(t.v.memory, u.v.memory.data());
        ASSERT_OK(planned(t, rule::bottom_right));
        for (index const left : {kv_tokens - 1, imbrex::unbounded}) {
            ASSERT_OK(attend(u, {imbrex::window{.left = left, .right = 0}}));
            EXPECT_TRUE(same_bits(t.out.memory, u.out.memory) && same_bits(t.lse, u.lse)) << c << ", left " << left;
        }
    }
}

TEST_F(AttentionMasks, AMaskOfOneColumnServesAllKeys) {
    attention_case const c{.batch = 2, .q_tokens = 9, .kv_tokens = 50, .q_heads = 3, .head_dim = 8};
    bool mask[2][9];
    for (int i = 0; i < 18; ++i) mask[i / 9][i % 9] = i % 4 != 1;
    call_tensors<f32> const t{c};
    fill(t);
    ASSERT_OK(attend(t, {imbrex::mask_tensor{imbrex::score_matrix(&mask[0][0], {2, 1, 9, 1})}}));
    expect_accurate(t, [&](index b, index, index i, index) { return mask[b][i]; });
}

TEST_F(AttentionMasks, WeightsOfMaskedKeysAreExactlyZero) {
    bool const mask[] = {false, true, true, false, false, true, false};
    for (index const q_tokens : {7, 1}) {
        attention_case const c{.q_tokens = q_tokens, .kv_tokens = 7, .q_heads = 13, .kv_heads = 13, .head_dim = 37};
        call_tensors<f32> const t{c};
        fill(t);
        for_each_row(t.v.view, [](index, index j, index, float* row) {
            for (index d = 0; d < 37; ++d) row[d] = d == j ? 1.0f : 0.0f;    // output d is the weight of key d
        });
        ASSERT_OK(attend(t, {imbrex::mask_tensor{imbrex::score_matrix(mask, {1, 1, 1, 7})}}));
        for_each_row(t.out.view, [&](index, index, index, float const* row) {
            for (index j = 0; j < 7; ++j) EXPECT_EQ(row[j] != 0, mask[j]) << "key " << j << " weighs " << row[j];
        });
    }
}

TEST_F(AttentionMasks, AMaskForMoreKeysThanThereAreIsRefused) {
    std::vector<std::uint8_t> const mask(128 * 256, 1);
    call_tensors<f32> const t{small(128, 16)};
    fill(t);
    EXPECT_EQ(attend(t, {imbrex::mask_tensor{imbrex::score_matrix(mask.data(), {1, 1, 128, 256})}}).code(), imbrex::errc::rule_axis);
    EXPECT_EQ(attend(t, {imbrex::packed_bits(mask.data(), {1, 1, 128, 256})}).code(), imbrex::errc::rule_axis);
    EXPECT_TRUE(t.out.memory.poisoned()) << "nothing is written";
}

}    // namespace
}    // namespace imbrex_test
