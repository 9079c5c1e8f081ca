// rules/mask_tensor.hpp: a bool, a byte or a bit per score, with any axis of size 1.
#include "imbrex/rules/mask_tensor.hpp"

#include <array>
#include <memory>

#include "guard.hpp"
#include "imbrex/rules/causal.hpp"
#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::bit_mask;
using imbrex::mask_tensor;
using imbrex::score_matrix;
using imbrex::score_shape;
using imbrex::score_strides;
using imbrex::score_view;

score_shape shape_of(head_context const& ctx, int ones) {
    return {ones & 1 ? 1 : batches, ones & 2 ? 1 : q_heads, ones & 4 ? 1 : ctx.q_len, ones & 8 ? 1 : ctx.kv_len};
}
index entries_of(score_shape const& s) { return s.batch * s.heads * s.q_tokens * s.kv_tokens; }

// Of any context and any axes of size 1, some masks of other density than half.
constexpr std::size_t most_entries = batches * q_heads * longest * longest;
struct random_entries {
    std::array<bool, most_entries> bools{};
    std::array<std::uint8_t, most_entries> bytes{};

    random_entries(std::uint32_t seed, int per_mille) {
        std::mt19937 engine{seed};
        for (std::size_t i = 0; i < most_entries; ++i) {
            bools[i] = static_cast<int>(engine() % 1000) < per_mille;
            bytes[i] = bools[i] ? static_cast<std::uint8_t>(1u << engine() % 8) : std::uint8_t{0};
        }
    }
};

TEST(MaskTensor, SaysWhichScoresCount) {
    bool const m[] = {true, false, true, false, false, true};
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {1, 1, 2, 3})}, 2, 3), (rows{"101", "001"}));
}

TEST(MaskTensor, CountsQueriesFromTheFirstOfTheCall) {
    bool const m[] = {true, false, false, true, true, true};
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {1, 1, 3, 2})}, 3, 2), (rows{"10", "01", "11"}));
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {1, 1, 1, 6})}, 1, 6), (rows{"100111"}));
}

TEST(MaskTensor, AnAxisOfOneServesAll) {
    bool const m[] = {true, false, true};
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {1, 1, 3, 1})}, 3, 4), (rows{"1111", "0000", "1111"}));
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {1, 1, 1, 3})}, 2, 3), (rows{"101", "101"}));
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {1, 3, 1, 1})}, 1, 2, 5, 1), (rows{"00"}));
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {3, 1, 1, 1})}, 1, 2, 2, 9), (rows{"11"}));
}

TEST(MaskTensor, AnyByteButZeroIsVisible) {
    std::uint8_t const m[] = {0, 1, 2, 255};
    EXPECT_EQ(picture(mask_tensor{score_matrix(m, {1, 1, 1, 4})}, 1, 4), (rows{"0111"}));
}

TEST(MaskTensor, TakesStridesOfAnySignAndSpacing) {
    bool const m[] = {true, false, true, true, false, false};
    EXPECT_EQ(picture(mask_tensor<bool>{{m, {1, 1, 2, 3}, {0, 0, 1, 2}}}, 2, 3), (rows{"110", "010"}));
    EXPECT_EQ(picture(mask_tensor<bool>{{m + 5, {1, 1, 2, 3}, {0, 0, -3, -1}}}, 2, 3), (rows{"001", "101"}));
}

TEST(MaskTensor, ShortcutsAndLanesAgreeWithKeepWhicheverAxesAreOne) {
    for (int const per_mille : {0, 100, 500, 900, 1000}) {
        random_entries const m{11, per_mille};
        for (int ones = 0; ones < 16; ++ones) {
            if (ones != 0 && per_mille % 500 != 0) continue;
            SCOPED_TRACE(testing::Message() << per_mille << " per mille, axes of one: " << ones);
            expect_consistent_made([&](head_context const& ctx) { return mask_tensor{score_matrix(m.bools.data(), shape_of(ctx, ones))}; },
                                   {shortcut::exact, shortcut::sound});
            if (ones % 5 != 0) continue;
            expect_consistent_made([&](head_context const& ctx) { return mask_tensor{score_matrix(m.bytes.data(), shape_of(ctx, ones))}; },
                                   {shortcut::exact, shortcut::sound});
        }
    }
}

TEST(MaskTensor, ShortcutsAgreeWithKeepWhenKeysLieApart) {
    random_entries const m{12, 800};
    expect_consistent_made(
        [&](head_context const& ctx) {
            score_shape const s{1, 1, ctx.q_len, ctx.kv_len};
            return mask_tensor{score_view<bool const>{m.bools.data(), s, {0, 0, 1, longest}}};
        },
        {shortcut::exact, shortcut::sound});
}

TEST(MaskTensor, CombinesWithOtherMasks) {
    random_entries const m{13, 700};
    imbrex::causal const diagonal{imbrex::align::bottom_right};
    auto const of = [&](head_context const& ctx) { return mask_tensor{score_matrix(m.bools.data(), shape_of(ctx, 0))}; };
    expect_consistent_made([&](head_context const& ctx) { return of(ctx) && diagonal; }, {shortcut::sound, shortcut::sound});
    expect_consistent_made([&](head_context const& ctx) { return diagonal || !of(ctx); }, {shortcut::sound, shortcut::sound});
}

TEST(MaskTensor, ScansRowsOfAnyLengthAndNothingBeside) {
    for (index n = 1; n <= 300; n = n < 150 ? n + 1 : n + 37) {
        for (guard const where : {guard::after, guard::before}) {
            guarded<std::uint8_t> bytes{static_cast<std::size_t>(n), where};
            for (std::uint8_t const value : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{128}}) {
                std::fill_n(bytes.data(), n, value);
                imbrex::seen_so_far const same = imbrex::scan_bytes(bytes.data(), n);
                ASSERT_TRUE(same.any == (value != 0) && same.all == (value != 0)) << n << " bytes of " << int{value};
                if (n == 1) continue;
                for (index odd = 0; odd < n; ++odd) {
                    bytes.data()[odd] = value == 0 ? 64 : 0;
                    ASSERT_TRUE(imbrex::scan_bytes(bytes.data(), n).mixed()) << n << " bytes of " << int{value} << " but one at " << odd;
                    bytes.data()[odd] = value;
                }
            }
        }
    }
}

TEST(MaskTensor, RefusesAnAxisOfAnotherLengthThanTheCalls) {
    std::vector<std::uint8_t> const m(2 * 3 * 128 * 256);
    auto const status_of = [&](score_shape s) { return check(mask_tensor{score_matrix(m.data(), s)}, {2, 3, 128, 256}); };
    EXPECT_TRUE(status_of({2, 3, 128, 256}).ok() && status_of({1, 1, 1, 1}).ok() && status_of({2, 1, 128, 1}).ok());
    EXPECT_STATUS(status_of({1, 3, 128, 255}), rule_axis);
    EXPECT_STATUS(status_of({1, 3, 129, 256}), rule_axis);
    EXPECT_STATUS(status_of({1, 2, 128, 256}), rule_axis);
    EXPECT_STATUS(status_of({3, 3, 128, 256}), rule_axis);
    EXPECT_STATUS(status_of({2, 3, 128, 0}), rule_axis);
    imbrex::status const for_sixteen_keys = check(mask_tensor{score_matrix(m.data(), {1, 1, 128, 256})}, {1, 1, 128, 16});
    EXPECT_EQ(for_sixteen_keys.message().view(), "imbrex: a rule's tensor has 256 keys but this call has 16; give it as many, or 1 that serves all");
    EXPECT_STATUS(check(mask_tensor{score_matrix<bool const>(nullptr, {1, 1, 1, 5})}, {1, 1, 2, 5}), rule_too_short);
    EXPECT_TRUE(check(mask_tensor{score_matrix<bool const>(nullptr, {1, 1, 2, 0})}, {1, 1, 2, 0}).ok());
}

// The bits of a tensor, its rows a byte apart from whole bytes and its tail bits set.
struct packed {
    std::vector<std::uint8_t> bits;
    bit_mask mask;

    packed(mask_tensor<bool> const& m) {
        score_shape const& s = m.entries.shape;
        index const row = s.kv_tokens / 8 + 2;
        score_strides const strides{s.heads * s.q_tokens * row, s.q_tokens * row, row, 0};
        bits.assign(static_cast<std::size_t>(s.batch * s.heads * s.q_tokens * row), 0xA5);
        for (index i = 0; i < entries_of(s); ++i) {
            index const key = i % s.kv_tokens;
            std::uint8_t& byte = bits[static_cast<std::size_t>(i / s.kv_tokens * row + key / 8)];
            auto const bit = static_cast<std::uint8_t>(1 << key % 8);
            byte = static_cast<std::uint8_t>(m.entries.data[i] ? byte | bit : byte & ~bit);
        }
        mask = {bits.data(), s, strides};
    }
};

TEST(BitMask, HasTheLowestBitFirst) {
    std::uint8_t const bits[] = {0b00000101, 0b00000010, 0b11111111, 0b00000001};
    EXPECT_EQ(picture(imbrex::packed_bits(bits, {1, 1, 2, 10}), 2, 10), (rows{"1010000001", "1111111110"}));
}

TEST(BitMask, ShortcutsAndLanesAgreeWithKeepWhicheverAxesAreOne) {
    for (int const per_mille : {0, 100, 500, 900, 1000}) {
        random_entries const m{14, per_mille};
        for (int ones = 0; ones < 16; ++ones) {
            if (ones != 0 && per_mille % 500 != 0) continue;
            SCOPED_TRACE(testing::Message() << per_mille << " per mille, axes of one: " << ones);
            std::vector<std::unique_ptr<packed>> kept;
            expect_consistent_made(
                [&](head_context const& ctx) {
                    kept.push_back(std::make_unique<packed>(score_matrix(m.bools.data(), shape_of(ctx, ones))));
                    return kept.back()->mask;
                },
                {shortcut::exact, shortcut::sound});
        }
    }
}

TEST(BitMask, ScansAnyStretchOfBitsAndNothingBeside) {
    constexpr index bytes = 27;
    guarded<std::uint8_t> row{bytes};
    for (bool const value : {false, true}) {
        std::fill_n(row.data(), bytes, static_cast<std::uint8_t>(value ? 0 : 255));
        for (index begin = 0; begin < 8 * bytes; begin += begin < 70 ? 1 : 13) {
            for (index end = begin + 1; end <= 8 * bytes; ++end) {
                auto const flip = [&](index bit) { row.data()[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8); };
                for (index bit = begin; bit < end; ++bit) flip(bit);
                imbrex::seen_so_far const same = imbrex::scan_bits(row.data(), begin, end);
                ASSERT_TRUE(same.any == value && same.all == value) << begin << " to " << end;
                for (index const odd : {begin, (begin + end) / 2, end - 1}) {
                    flip(odd);
                    ASSERT_TRUE(end - begin == 1 || imbrex::scan_bits(row.data(), begin, end).mixed()) << begin << " to " << end << " but " << odd;
                    flip(odd);
                }
                for (index bit = begin; bit < end; ++bit) flip(bit);
            }
        }
    }
}

TEST(BitMask, RefusesAnAxisOfAnotherLengthThanTheCalls) {
    std::vector<std::uint8_t> const bits(64);
    EXPECT_TRUE(check(imbrex::packed_bits(bits.data(), {1, 1, 4, 100}), {2, 2, 4, 100}).ok());
    EXPECT_STATUS(check(imbrex::packed_bits(bits.data(), {1, 1, 4, 104}), {2, 2, 4, 100}), rule_axis);
    EXPECT_STATUS(check(imbrex::packed_bits(bits.data(), {1, 1, 3, 100}), {2, 2, 4, 100}), rule_axis);
    EXPECT_STATUS(check(imbrex::packed_bits(nullptr, {1, 1, 4, 100}), {2, 2, 4, 100}), rule_too_short);
}

}    // namespace
}    // namespace imbrex_test
