// Written rows: ggml's block formats bit for bit against its reference quantisers, restated here; error bounds of the others;
// and what becomes of zeros, NaNs, infinities and very small numbers.
#include "imbrex/kv/encode.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "guard.hpp"

namespace imbrex_test {
namespace {

using imbrex::f16;
using imbrex::index;
using imbrex::int4_pair;
using imbrex::q4_0_block;
using imbrex::q8_0_block;
using imbrex::side_scales;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Numbers of N(0, 1) times 2^e with e anywhere within +-spread, and some exact ties of q8_0 and q4_0.
std::vector<float> random_numbers(std::size_t n, unsigned seed, int spread) {
    std::mt19937 random{seed};
    std::normal_distribution<float> normal;
    int const exponent = static_cast<int>(random() % static_cast<unsigned>(2 * spread + 1)) - spread;
    std::vector<float> x(n);
    for (float& value : x) value = std::ldexp(normal(random), exponent);
    if (seed % 4 == 0) {
        for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(static_cast<float>(random() % 509) / 2.f - 127.f, exponent);
        x[seed / 4 % 32] = std::ldexp(seed % 8 == 0 ? 127.f : -127.f, exponent);
    }
    return x;
}

// quantize_row_q8_0_ref. Products go through memory, so that no compiler fuses them with what follows.
q8_0_block ggml_q8_0(float const* x) {
    float amax = 0;
    for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[i]));
    float const d = amax / 127;
    float const id = d != 0 ? 1.f / d : 0.f;
    q8_0_block b;
    b.d = f16(d);
    for (int i = 0; i < 32; ++i) {
        float const volatile product = x[i] * id;
        b.qs[i] = static_cast<std::int8_t>(std::round(product));
    }
    return b;
}

// quantize_row_q4_0_ref.
q4_0_block ggml_q4_0(float const* x) {
    float amax = 0, max = 0;
    for (int i = 0; i < 32; ++i) {
        if (amax < std::fabs(x[i])) amax = std::fabs(x[i]), max = x[i];
    }
    float const d = max / -8;
    float const id = d != 0 ? 1.f / d : 0.f;
    q4_0_block b;
    b.d = f16(d);
    for (int i = 0; i < 16; ++i) {
        float const volatile low = x[i] * id, high = x[16 + i] * id;
        auto const xi0 = static_cast<unsigned>(std::min(15, static_cast<int>(low + 8.5f)));
        auto const xi1 = static_cast<unsigned>(std::min(15, static_cast<int>(high + 8.5f)));
        b.qs[i] = static_cast<std::uint8_t>(xi0 | xi1 << 4);
    }
    return b;
}

template <class Block, class Reference>
void expect_as_ggml(Reference reference) {
    for (unsigned seed = 1; seed <= 4000; ++seed) {
        auto x = random_numbers(96, seed, 20);
        if (seed % 7 == 0) std::fill_n(x.begin() + 32, 32, seed % 2 == 0 ? 0.f : -0.f);
        if (seed % 9 == 0) x[3] = -x[20], x[20] = x[3] * 4, x[25] = -x[20];    // the largest twice, with either sign
        guarded<Block> const row(3);
        imbrex::encode_row(x.data(), 96, row.data());
        for (std::size_t i = 0; i < 3; ++i) {
            Block const expected = reference(x.data() + 32 * i);
            ASSERT_EQ(std::memcmp(&row[i], &expected, sizeof expected), 0) << "block " << i << ", seed " << seed;
        }
    }
}

TEST(Encode, Q8BlocksAreGgmlsBitForBit) { expect_as_ggml<q8_0_block>(ggml_q8_0); }
TEST(Encode, Q4BlocksAreGgmlsBitForBit) { expect_as_ggml<q4_0_block>(ggml_q4_0); }

// Elements: every number is the type's own rounding of it, at any length.
template <class E>
class EncodeElements : public testing::Test {};
struct names {
    template <class E>
    static std::string GetName(int) {
        return std::string{imbrex::encoding_name<E>()};
    }
};
using elements = testing::Types<float, f16, imbrex::bf16, imbrex::f8_e4m3, imbrex::f8_e5m2>;
TYPED_TEST_SUITE(EncodeElements, elements, names);

TYPED_TEST(EncodeElements, EveryNumberIsRoundedByItself) {
    using E = TypeParam;
    for (index n : {1, 7, 16, 33, 100}) {
        auto x = random_numbers(static_cast<std::size_t>(n), static_cast<unsigned>(n), 4);
        if (n > 20) x[5] = nan, x[6] = infinity, x[19] = -1e30f;
        guarded<E> const row(static_cast<std::size_t>(n));
        imbrex::encode_row(x.data(), n, row.data());
        for (std::size_t d = 0; d < x.size(); ++d) {
            E const expected(x[d]);
            if (std::isnan(x[d]))
                ASSERT_TRUE(std::isnan(imbrex::to_float(row[d])));
            else
                ASSERT_EQ(std::memcmp(&row[d], &expected, sizeof expected), 0) << d << " of " << n;
        }
    }
}

template <class E>
class EncodeSideScaled : public testing::Test {
protected:
    static constexpr float limit = std::is_same_v<E, int4_pair> ? 7.f : 127.f;

    // x encoded in groups of its own scales.
    struct encoded {
        guarded<E> row;
        guarded<float> scales;
        index group;

        float operator[](index d) const { return imbrex::value_at(row.data(), side_scales{scales.data(), group}, d); }
    };
    static encoded encode(std::vector<float> const& x, index group) {
        auto const n = static_cast<index>(x.size());
        encoded e{guarded<E>(static_cast<std::size_t>(imbrex::row_units<E>(n))),
                  guarded<float>(static_cast<std::size_t>((n + group - 1) / group)), group};
        imbrex::encode_row(x.data(), n, e.row.data(), e.scales.data(), group);
        return e;
    }
};
using side_scaled = testing::Types<std::int8_t, int4_pair>;
TYPED_TEST_SUITE(EncodeSideScaled, side_scaled, names);

TYPED_TEST(EncodeSideScaled, NumbersComeBackWithinHalfAStepOfTheirGroupsLargest) {
    for (index group : {index{32}, index{64}, index{128}, index{1000}}) {
        for (unsigned seed = 1; seed <= 50; ++seed) {
            auto const x = random_numbers(128, seed, 30);
            auto const e = this->encode(x, group);
            for (index d = 0; d < 128; ++d) {
                double largest = 0;
                index const first = d / group * group;
                for (index i = first; i < std::min<index>(first + group, 128); ++i)
                    largest = std::max(largest, std::fabs(static_cast<double>(x[static_cast<std::size_t>(i)])));
                double const error = std::fabs(static_cast<double>(e[d]) - static_cast<double>(x[static_cast<std::size_t>(d)]));
                ASSERT_LE(error, largest / (2 * this->limit) * (1 + 1e-4)) << d << " in groups of " << group << ", seed " << seed;
            }
        }
    }
}

TYPED_TEST(EncodeSideScaled, TheLargestNumberTakesTheLargestCode) {
    std::vector<float> x(32, 0.25f);
    x[9] = -3.f * this->limit;
    x[10] = 4.5f;    // 1.5 steps: away from 0
    x[11] = -4.5f;
    auto const e = this->encode(x, 32);
    EXPECT_EQ(e.scales[0], 3.f);
    EXPECT_EQ(imbrex::code_at(e.row.data(), 9), -static_cast<int>(this->limit));
    EXPECT_EQ(imbrex::code_at(e.row.data(), 10), 2);
    EXPECT_EQ(imbrex::code_at(e.row.data(), 11), -2);
    EXPECT_EQ(imbrex::code_at(e.row.data(), 0), 0);
}

TYPED_TEST(EncodeSideScaled, ZerosAndNumbersTooSmallForAScaleAreZeros) {
    for (float small : {0.f, -0.f, 1e-40f, std::numeric_limits<float>::denorm_min()}) {
        auto const e = this->encode(std::vector<float>(64, small), 32);
        for (index d = 0; d < 64; ++d) ASSERT_EQ(e[d], 0.f) << small;
    }
}

TYPED_TEST(EncodeSideScaled, AGroupWithANanOrAnInfinityIsNanAndItsNeighboursAreNot) {
    for (float bad : {nan, -nan, infinity, -infinity}) {
        std::vector<float> x(96, 1.f);
        x[40] = bad;
        auto const e = this->encode(x, 32);
        for (index d = 0; d < 96; ++d) ASSERT_EQ(std::isnan(e[d]), d >= 32 && d < 64) << d << " beside " << bad;
    }
}

TYPED_TEST(EncodeSideScaled, GivenScalesAreUsedAndNumbersBeyondThemHeld) {
    using E = TypeParam;
    index const n = 38;
    std::vector<float> scales(static_cast<std::size_t>(n)), x(static_cast<std::size_t>(n));
    for (std::size_t d = 0; d < x.size(); ++d) {
        scales[d] = std::ldexp(1.f, static_cast<int>(d % 5) - 2);
        x[d] = scales[d] * (static_cast<float>(d % 13) - 6.f);
    }
    x[3] = infinity, x[4] = -1e20f, x[5] = nan, x[6] = 2.5f * scales[6];
    guarded<E> const row(static_cast<std::size_t>(imbrex::row_units<E>(n)));
    imbrex::encode_row(x.data(), n, row.data(), side_scales{scales.data(), 1});
    auto const top = static_cast<int>(this->limit);
    for (index d = 0; d < n; ++d) {
        int const expected = d == 3 ? top : d == 4 ? -top : d == 5 ? 0 : d == 6 ? 3 : static_cast<int>(d % 13) - 6;
        ASSERT_EQ(imbrex::code_at(row.data(), d), expected) << d;
    }
}

template <class Block>
class EncodeBlocks : public testing::Test {};
using blocks = testing::Types<q8_0_block, q4_0_block>;
TYPED_TEST_SUITE(EncodeBlocks, blocks, names);

TYPED_TEST(EncodeBlocks, ABlockWithANanOrAnInfinityIsNanAndItsNeighboursAreNot) {
    for (float bad : {nan, infinity, -infinity}) {
        std::vector<float> x(96, 1.f);
        x[63] = bad;
        std::vector<TypeParam> row(3);
        imbrex::encode_row(x.data(), 96, row.data());
        for (index d = 0; d < 96; ++d) {
            ASSERT_EQ(std::isnan(imbrex::value_at(row.data(), d)), d >= 32 && d < 64) << d << " beside " << bad;
        }
    }
}

TYPED_TEST(EncodeBlocks, NumbersTooSmallForAnF16ScaleAreZeros) {
    for (float small : {0.f, 1e-7f, 1e-30f, 1e-40f}) {
        std::vector<float> x(32, small);
        std::vector<TypeParam> row(1);
        imbrex::encode_row(x.data(), 32, row.data());
        for (index d = 0; d < 32; ++d) ASSERT_EQ(imbrex::value_at(row.data(), d), 0.f) << small;
    }
}

}    // namespace
}    // namespace imbrex_test
