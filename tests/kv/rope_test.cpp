// Rotary embedding against its definition in double precision.
#include "imbrex/kv/rope.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace {

using imbrex::errc;
using imbrex::index;
using imbrex::position;
using imbrex::rope;
using imbrex::rope_pairs;

std::vector<float> random_row(std::size_t n, unsigned seed) {
    std::mt19937 random{seed};
    std::normal_distribution<float> normal;
    std::vector<float> row(n);
    for (float& x : row) x = normal(random);
    return row;
}

// The complex number a + i b of each pair, times e^(i t).
std::vector<double> definition(std::vector<float> const& row, rope const& r, double at) {
    std::vector<double> turned(row.begin(), row.end());
    auto const half = static_cast<std::size_t>(r.rotary_dim / 2);
    for (std::size_t i = 0; i < half; ++i) {
        std::size_t const first = r.pairs == rope_pairs::interleaved ? 2 * i : i;
        std::size_t const second = r.pairs == rope_pairs::interleaved ? 2 * i + 1 : i + half;
        double const t = at * static_cast<double>(r.frequencies[i]), scale = static_cast<double>(r.magnitude);
        double const a = static_cast<double>(row[first]), b = static_cast<double>(row[second]);
        turned[first] = scale * (a * std::cos(t) - b * std::sin(t));
        turned[second] = scale * (b * std::cos(t) + a * std::sin(t));
    }
    return turned;
}

std::vector<float> turned(std::vector<float> row, rope const& r, position at) {
    imbrex::rope_turn turn;
    turn.to(r, at);
    turn.turn(row.data());
    return row;
}

TEST(Rope, TurnsPairsOfBothKindsAtAnyPositionWholeRowsAndPartsOfThem) {
    for (index rotary_dim : {2, 6, 64, 96, 128}) {
        std::vector<float> frequencies(static_cast<std::size_t>(rotary_dim / 2));
        imbrex::rope_frequencies(10000, {}, frequencies);
        for (rope_pairs pairs : {rope_pairs::interleaved, rope_pairs::halves}) {
            for (position at : {0, 1, 7, 4095, 131071, 2000000000, -3}) {
                rope const r{.pairs = pairs, .rotary_dim = rotary_dim, .frequencies = frequencies, .magnitude = 1.25f};
                auto const row = random_row(128, static_cast<unsigned>(rotary_dim));
                auto const expected = definition(row, r, at);
                auto const x = turned(row, r, at);
                for (std::size_t d = 0; d < 128; ++d) {
                    if (static_cast<index>(d) >= rotary_dim)
                        ASSERT_EQ(x[d], row[d]) << d;
                    else
                        ASSERT_NEAR(static_cast<double>(x[d]), expected[d], 2e-6) << d << " of " << rotary_dim << " at " << at;
                }
            }
        }
    }
}

TEST(Rope, FrequenciesFallGeometricallyFromOneAndAreDividedByTheirFactors) {
    std::vector<float> plain(64), divided(64);
    std::vector<float> const factors{1, 2, 8};
    imbrex::rope_frequencies(500000, {}, plain);
    imbrex::rope_frequencies(500000, factors, divided);
    EXPECT_EQ(plain[0], 1.f);
    EXPECT_NEAR(static_cast<double>(plain[32]), std::sqrt(1 / 500000.), 1e-9);
    EXPECT_EQ(divided[1], plain[1] / 2);
    EXPECT_EQ(divided[2], plain[2] / 8);
    EXPECT_EQ(divided[3], plain[3]);
}

TEST(Rope, TablesAreUsedAsTheyAre) {
    index const rotary_dim = 8;
    auto const cosines = random_row(12, 1), sines = random_row(12, 2), row = random_row(10, 3);
    rope const r{.pairs = rope_pairs::halves, .rotary_dim = rotary_dim, .cosines = cosines, .sines = sines, .magnitude = 99};
    auto const x = turned(row, r, 2);
    for (std::size_t i = 0; i < 4; ++i) {
        double const c = static_cast<double>(cosines[8 + i]), s = static_cast<double>(sines[8 + i]);
        double const a = static_cast<double>(row[i]), b = static_cast<double>(row[i + 4]);
        EXPECT_NEAR(static_cast<double>(x[i]), a * c - b * s, 1e-6);
        EXPECT_NEAR(static_cast<double>(x[i + 4]), b * c + a * s, 1e-6);
    }
    EXPECT_EQ(x[8], row[8]);
    EXPECT_EQ(x[9], row[9]);
}

TEST(Rope, WithoutADimensionItTurnsNothing) {
    auto const row = random_row(16, 4);
    EXPECT_EQ(turned(row, rope{}, 5), row);
    EXPECT_TRUE(rope{}.check(16, 0, 5).ok());
}

TEST(Rope, WhatDoesNotFitIsRefused) {
    std::vector<float> const few(3), table(12);
    EXPECT_EQ((rope{.rotary_dim = 7}.check(64, 0, 0).code()), errc::rope_dim);
    EXPECT_EQ((rope{.rotary_dim = -2}.check(64, 0, 0).code()), errc::rope_dim);
    EXPECT_EQ((rope{.rotary_dim = 66}.check(64, 0, 0).code()), errc::rope_dim);
    EXPECT_EQ((rope{.rotary_dim = 8, .frequencies = few}.check(64, 0, 0).code()), errc::rope_frequencies_short);
    EXPECT_TRUE((rope{.rotary_dim = 6, .frequencies = few}.check(64, 0, 0).ok()));
    rope const tables{.rotary_dim = 8, .cosines = table, .sines = table};
    EXPECT_TRUE(tables.check(64, 0, 2).ok());
    EXPECT_EQ(tables.check(64, 0, 3).code(), errc::rope_position);
    EXPECT_EQ(tables.check(64, -1, 2).code(), errc::rope_position);
    EXPECT_EQ((rope{.rotary_dim = 8, .cosines = table}.check(64, 0, 0).code()), errc::rope_position);
}

}    // namespace
