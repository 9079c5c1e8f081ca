// Vector loads of every encoding, held to the definitions of encoding.hpp on every byte that a row may hold.
#include "imbrex/simd/encoded.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "guard.hpp"
#include "simd_lanes.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f16;
using imbrex::f8_e4m3;
using imbrex::f8_e5m2;
using imbrex::index;
using imbrex::int4_pair;
using imbrex::q4_0_block;
using imbrex::q8_0_block;
using imbrex::side_scales;

constexpr int W = lane_count<float>;
using vector = lanes<float>;

// Number d as the definition has it, unscaled where scales lie elsewhere.
template <class E>
float number(E const* row, index d) {
    if constexpr (imbrex::side_scaled<E>)
        return static_cast<float>(imbrex::code_at(row, d));
    else
        return imbrex::value_at(row, d);
}

// A row of n numbers between forbidden pages, of random bytes: infinities, NaNs and denormals among them.
template <class E>
guarded<E> random_row(index n, guard where, unsigned seed) {
    guarded<E> row(static_cast<std::size_t>(imbrex::row_units<E>(n)), where);
    std::mt19937 random{seed};
    auto* const bytes = reinterpret_cast<unsigned char*>(row.data());
    for (std::size_t i = 0; i < row.size() * sizeof(E); ++i) bytes[i] = static_cast<unsigned char>(random());
    return row;
}

template <class E>
class SimdEncoded : public testing::Test {};
struct names {
    template <class E>
    static std::string GetName(int) {
        return std::string{imbrex::encoding_name<E>()};
    }
};
using encodings = testing::Types<bf16, f16, f8_e4m3, f8_e5m2, std::int8_t, int4_pair, q8_0_block, q4_0_block>;
TYPED_TEST_SUITE(SimdEncoded, encodings, names);

TYPED_TEST(SimdEncoded, ARowIsItsNumbersInOrderAndNothingBeyondIsRead) {
    using E = TypeParam;
    for (guard const where : {guard::after, guard::before}) {
        for (unsigned seed = 1; seed <= 20; ++seed) {
            auto const row = random_row<E>(128, where, seed);
            for (index d = 0; d < 128; d += W) {
                auto const x = lanes_of<float>(imbrex::load_row<float>(row.data(), d));
                for (int i = 0; i < W; ++i) {
                    ASSERT_TRUE(same(x[static_cast<std::size_t>(i)], number(row.data(), d + i))) << d + i << ", seed " << seed;
                }
            }
        }
    }
}

TYPED_TEST(SimdEncoded, APairIsTheSameNumbersInTheOrderItTells) {
    using E = TypeParam;
    for (unsigned seed = 1; seed <= 20; ++seed) {
        auto const row = random_row<E>(96, guard::after, seed);
        for (index d = 0; d < 96; d += 2 * W) {
            vector low, high;
            imbrex::load_row_pair<float>(row.data(), d, low, high);
            auto x = lanes_of<float>(low);
            for (float const y : lanes_of<float>(high)) x.push_back(y);
            for (int i = 0; i < 2 * W; ++i) {
                auto const lane = static_cast<std::size_t>(imbrex::row_pair_lane<float, E>(i));
                ASSERT_TRUE(same(x[lane], number(row.data(), d + i))) << d + i << ", seed " << seed;
            }
        }
    }
}

TYPED_TEST(SimdEncoded, CodesTimesTheirScaleAreTheNumbers) {
    using E = TypeParam;
    auto const row = random_row<E>(64, guard::after, 7);
    for (index d = 0; d < 64; d += 2 * W) {
        vector low, high;
        imbrex::load_code_pair<float>(row.data(), d, low, high);
        vector first = imbrex::load_codes<float>(row.data(), d);
        if constexpr (imbrex::block_encoded<E>) {
            vector const scale = imbrex::block_scale<float>(row.data(), d);
            low = low * scale, high = high * scale, first = first * scale;
        }
        auto x = lanes_of<float>(low);
        for (float const y : lanes_of<float>(high)) x.push_back(y);
        for (int i = 0; i < 2 * W; ++i) {
            auto const lane = static_cast<std::size_t>(imbrex::row_pair_lane<float, E>(i));
            ASSERT_TRUE(same(x[lane], number(row.data(), d + i))) << d + i;
        }
        for (int i = 0; i < W; ++i) {
            ASSERT_TRUE(same(lanes_of<float>(first)[static_cast<std::size_t>(i)], number(row.data(), d + i))) << d + i;
        }
    }
}

// Lengths that a row may have: any for elements, else whole blocks or pairs.
template <class E>
std::vector<index> lengths() {
    if constexpr (imbrex::in_pieces<E>)
        return {32, 64, 96, 128, 160};
    else
        return {1, 3, W - 1, W, W + 1, 2 * W - 1, 2 * W, 31, 32, 37, 64, 80, 3 * W + 5, 128};
}

TYPED_TEST(SimdEncoded, WidenedRowsOfAnyLengthAreTheirNumbersAndNothingElseIsTouched) {
    using E = TypeParam;
    for (index n : lengths<E>()) {
        auto const row = random_row<E>(n, guard::after, static_cast<unsigned>(n));
        guarded<float> const to(static_cast<std::size_t>(n));
        imbrex::widen_row<float>(row.data(), n, to.data());
        for (index d = 0; d < n; ++d) ASSERT_TRUE(same(to.data()[d], number(row.data(), d))) << d << " of " << n;
    }
}

template <class E>
class SimdSideScaled : public testing::Test {};
using side_scaled = testing::Types<std::int8_t, int4_pair>;
TYPED_TEST_SUITE(SimdSideScaled, side_scaled, names);

TYPED_TEST(SimdSideScaled, WidenedRowsAreScaledByTheRowTheGroupOrTheChannel) {
    using E = TypeParam;
    for (index n : lengths<E>()) {
        for (index group : {index{1}, index{2}, index{5}, index{16}, index{32}, index{64}, index{128}, n}) {
            auto const row = random_row<E>(n, guard::after, static_cast<unsigned>(n));
            guarded<float> const scales(static_cast<std::size_t>((n + group - 1) / group));
            for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.37f * static_cast<float>(i + 1);
            guarded<float> const to(static_cast<std::size_t>(n));
            imbrex::widen_row<float>(row.data(), side_scales{scales.data(), group}, n, to.data());
            for (index d = 0; d < n; ++d) {
                float const expected = imbrex::value_at(row.data(), side_scales{scales.data(), group}, d);
                ASSERT_EQ(to.data()[d], expected) << d << " of " << n << " in groups of " << group;
            }
        }
    }
}

// All 256 patterns through each of the ways in: whole vectors, pairs (by widen_row), and a cut one.
template <class E>
class SimdBytes : public testing::Test {};
using bytes = testing::Types<f8_e4m3, f8_e5m2, std::int8_t>;
TYPED_TEST_SUITE(SimdBytes, bytes, names);

TYPED_TEST(SimdBytes, EveryPatternWidensExactlyOnEveryPath) {
    using E = TypeParam;
    guarded<E> const all(256);
    for (int b = 0; b < 256; ++b) {
        auto const byte = static_cast<unsigned char>(b);
        std::memcpy(all.data() + b, &byte, 1);
    }
    std::vector<float> to(256);
    imbrex::widen_row<float>(all.data(), 256, to.data());
    for (int b = 0; b < 256; ++b) {
        ASSERT_TRUE(same(to[static_cast<std::size_t>(b)], imbrex::to_float(all.data()[b]))) << b;
        ASSERT_TRUE(same(imbrex::looked_up(all.data()[b]), imbrex::to_float(all.data()[b]))) << b;
        int const n = 1 + b % (W - 1);
        if (b + n > 256) continue;
        auto const cut = lanes_of<float>(seam<float>::load_first(all.data() + b, n));
        for (int i = 0; i < W; ++i) {
            float const expected = i < n ? imbrex::to_float(all.data()[b + i]) : 0.f;
            ASSERT_TRUE(same(cut[static_cast<std::size_t>(i)], expected)) << b << " + " << i;
        }
    }
    for (int b = 0; b + W <= 256; ++b) {
        auto const x = lanes_of<float>(seam<float>::load(all.data() + b));
        for (int i = 0; i < W; ++i) ASSERT_TRUE(same(x[static_cast<std::size_t>(i)], imbrex::to_float(all.data()[b + i]))) << b;
    }
}

}    // namespace
}    // namespace imbrex_test
