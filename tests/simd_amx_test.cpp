// Emulated tiles against the text of the instruction, in arithmetic of their own; and against the machine's, where it has some.
#include "imbrex/simd/amx.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

using imbrex::bf16;

struct operands {
    alignas(64) bf16 a[16][32];
    alignas(64) bf16 b[16][32];
    alignas(64) float c[16][16];
};

// c of tiles after c += a b.
template <class Tiles>
void multiply(operands& x) {
    Tiles tiles;
    tiles.template load_once<1>(x.a, 64);
    tiles.template load<6>(x.b, 64);
    tiles.template load<3>(x.c, 64);
    tiles.template dot_bf16<3, 1, 6>();
    tiles.template store<3>(x.c, 64);
}

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// The sum of exact terms rounded once to f32: through long double, whose 64 bits hold each product and sum of the tests exactly
// where exponents differ by less than 40.
float rounded(long double x) {
    float const f = static_cast<float>(x);
    return flushed(f);
}

void expect_as_told(operands const& before, operands const& after) {
    for (int m = 0; m < 16; ++m) {
        for (int n = 0; n < 16; ++n) {
            float sums[2] = {0, 0};
            for (int k = 0; k < 16; ++k) {
                for (int i = 0; i < 2; ++i) {
                    long double const a = flushed(before.a[m][2 * k + i]), b = flushed(before.b[k][2 * n + i]);
                    sums[i] = rounded(a * b + sums[i]);
                }
            }
            float const want = rounded(static_cast<long double>(flushed(before.c[m][n])) + rounded(static_cast<long double>(sums[0]) + sums[1]));
            ASSERT_EQ(std::bit_cast<std::uint32_t>(after.c[m][n]), std::bit_cast<std::uint32_t>(want)) << m << ", " << n;
        }
    }
}

struct SimdAmx : testing::Test {
    unsigned seed = std::getenv("IMBREX_TEST_SEED") != nullptr ? static_cast<unsigned>(std::atoi(std::getenv("IMBREX_TEST_SEED"))) : 7;
    testing::ScopedTrace trace{__FILE__, __LINE__, "IMBREX_TEST_SEED=" + std::to_string(seed)};
    std::mt19937 engine{seed};

    // Numbers of any sign with exponents in [low, high].
    operands some(int low, int high) {
        operands x;
        auto const number = [&] {
            std::uniform_int_distribution<int> exponent{low, high};
            float const size = std::ldexp(1.0f + static_cast<float>(engine() % 128) / 128, exponent(engine));
            return engine() % 2 == 0 ? size : -size;
        };
        for (auto& row : x.a) {
            for (bf16& v : row) v = bf16{number()};
        }
        for (auto& row : x.b) {
            for (bf16& v : row) v = bf16{number()};
        }
        for (auto& row : x.c) {
            for (float& v : row) v = number() * (1 + static_cast<float>(engine() % 65536) / 65536);
        }
        return x;
    }
};

TEST_F(SimdAmx, EveryStepIsRoundedOnceAndEvenAndOddProductsAreSummedApart) {
    for (int i = 0; i < 8; ++i) {
        operands const before = some(-6, 6);
        operands after = before;
        multiply<imbrex::emulated_tiles>(after);
        expect_as_told(before, after);
    }
}

TEST_F(SimdAmx, DenormalsAreZeroAndTinySumsBecomeIt) {
    for (int const low : {-130, -66}) {
        operands const before = some(low, low + 6);
        operands after = before;
        multiply<imbrex::emulated_tiles>(after);
        expect_as_told(before, after);
    }
}

TEST_F(SimdAmx, SumsBeyondFloatsAreInfinite) {
    operands x = some(0, 0);
    for (auto& row : x.a) {
        for (bf16& v : row) v = bf16{0x1p100f};
    }
    for (auto& row : x.b) {
        for (bf16& v : row) v = bf16{0x1p100f};
    }
    multiply<imbrex::emulated_tiles>(x);
    for (auto const& row : x.c) {
        for (float const v : row) EXPECT_EQ(v, std::numeric_limits<float>::infinity());
    }
}

TEST_F(SimdAmx, NanReachesItsRowOrColumnOnly) {
    operands x = some(-2, 2);
    x.a[5][7] = bf16::from_bits(0x7fff);
    x.b[3][2 * 11 + 1] = bf16::from_bits(0xffc0);
    multiply<imbrex::emulated_tiles>(x);
    for (int m = 0; m < 16; ++m) {
        for (int n = 0; n < 16; ++n) EXPECT_EQ(std::isnan(x.c[m][n]), m == 5 || n == 11) << m << ", " << n;
    }
}

TEST_F(SimdAmx, RowsMayLieApart) {
    std::vector<float> from(16 * 40, -1.0f), to(16 * 24, -1.0f);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
    imbrex::emulated_tiles tiles;
    tiles.load<0>(from.data(), 160);
    tiles.store<0>(to.data(), 96);
    for (std::size_t r = 0; r < 16; ++r) {
        for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(to[24 * r + i], i < 16 ? from[40 * r + i] : -1);
    }
    tiles.zero<0>();
    tiles.store<0>(to.data(), 96);
    EXPECT_EQ(to[24], 0);
}

#if defined(IMBREX_HAS_AMX_BF16)
TEST_F(SimdAmx, TheMachineDoesTheSame) {
    if (!imbrex::amx_tiles::refusal().empty()) GTEST_SKIP() << "no AMX here";
    for (int i = 0; i < 400; ++i) {
        operands const before = i % 4 == 0 ? some(-127, 127) : i % 4 == 1 ? some(-70, -56) : some(-6 - i / 40, 6 + i / 40);
        operands emulated = before, real = before;
        multiply<imbrex::emulated_tiles>(emulated);
        multiply<imbrex::amx_tiles>(real);
        for (int m = 0; m < 16; ++m) {
            for (int n = 0; n < 16; ++n) {
                if (std::isnan(real.c[m][n]) && std::isnan(emulated.c[m][n])) continue;
                ASSERT_EQ(std::bit_cast<std::uint32_t>(real.c[m][n]), std::bit_cast<std::uint32_t>(emulated.c[m][n])) << i;
            }
        }
    }
}
#else
TEST_F(SimdAmx, TheMachineDoesTheSame) { GTEST_SKIP() << "compiled without AMX-BF16"; }
#endif

}    // namespace
