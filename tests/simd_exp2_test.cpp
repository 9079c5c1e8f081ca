// The seam's exp2 on the instruction set this file is compiled for, against std::exp2 of a wider type.
// It is tried on every float of its range; where that takes minutes, only with IMBREX_EXHAUSTIVE=1 in the environment.
#include "imbrex/simd.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "simd_lanes.hpp"

namespace imbrex_test {
namespace {

template <class T, int N = 4>
void exp2_all(T* values) {    // N vectors
    array_of<lanes<T>, N> x;
    for (int i = 0; i < N; ++i) x[i] = lanes<T>::load_unaligned(values + i * lane_count<T>);
    seam<T>::template exp2<N>(x);
    for (int i = 0; i < N; ++i) x[i].store_unaligned(values + i * lane_count<T>);
}

template <class T>
T exp2_of(T x) {
    std::vector<T> values(static_cast<std::size_t>(4 * lane_count<T>), x);
    exp2_all(values.data());
    for (T const y : values) EXPECT_TRUE(same(y, values[0])) << "lanes of 2^" << x << " differ";
    return values[0];
}

// In units of the last place of f32 at the exact value, which is a normal number.
double error_in_ulps(float y, double exact) {
    auto const exponent = std::bit_cast<std::uint64_t>(exact) >> 52;    // positive, biased by 1023
    double const reciprocal = std::bit_cast<double>((2046 - exponent + 23) << 52);
    return std::fabs(static_cast<double>(y) - exact) * reciprocal;
}

// 2^x to far less than an ulp of f32. Most floats are this near 0, where two terms will do: (x ln 2)^2 / 2 < 2^-53.
double exp2_oracle(float x) {
    double const wide = x;
    return std::fabs(x) < 0x1p-26f ? 1.0 + wide * 0.69314718055994530942 : std::exp2(wide);
}

// The worst error over every `step`th float from `from` to `to`, two of one sign, the first nearer to 0.
double worst_error(float from, float to, std::uint32_t step) {
    constexpr std::size_t count = 4 * static_cast<std::size_t>(lane_count<float>);
    std::uint64_t const last = std::bit_cast<std::uint32_t>(to);
    double worst = 0;
    float x[count], y[count];
    for (std::uint64_t bits = std::bit_cast<std::uint32_t>(from); bits <= last; bits += count * step) {
        for (std::size_t i = 0; i < count; ++i) {
            std::uint64_t const own = std::min(last, bits + i * step);
            y[i] = x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(own));
        }
        exp2_all(y);
        for (std::size_t i = 0; i < count; ++i) {
            double const error = error_in_ulps(y[i], exp2_oracle(x[i]));
            worst = error > worst || std::isnan(error) ? error : worst;
        }
        if (std::isnan(worst)) break;
    }
    return worst;
}

bool exhaustive() {
    char const* const wanted = std::getenv("IMBREX_EXHAUSTIVE");
    return wanted != nullptr && std::string{wanted} == "1";
}

// A billion floats take seconds, but minutes under an emulator (as Arm is tested in CI) or a sanitizer.
#if defined(__aarch64__) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
constexpr std::uint32_t usual_step = 61;
#else
constexpr std::uint32_t usual_step = 1;
#endif

void expect_within_one_ulp(float from, float to) {
    double const worst = worst_error(from, to, exhaustive() ? 1 : usual_step);
    testing::Test::RecordProperty("worst_ulp", std::to_string(worst));
    std::printf("worst error %.4f ulp\n", worst);
    EXPECT_LE(worst, 1.0);
}

// All that a softmax asks for: its arguments are never above 0.
TEST(SimdExp2, IsWithinOneUlpOnEveryFloatDownToMinusOne) { expect_within_one_ulp(-0.f, -1.f); }
TEST(SimdExp2, IsWithinOneUlpOnEveryFloatFromMinusOneDownToMinus126) { expect_within_one_ulp(-1.f, -126.f); }
TEST(SimdExp2, IsWithinOneUlpOnEveryFloatUpTo127) { expect_within_one_ulp(0.f, 127.f); }

TEST(SimdExp2, IsExactAtWholeNumbers) {
    for (int n = -126; n <= 127; ++n) EXPECT_EQ(exp2_of(static_cast<float>(n)), std::ldexp(1.f, n)) << n;
    for (int n = -1022; n <= 1023; ++n) EXPECT_EQ(exp2_of(static_cast<double>(n)), std::ldexp(1.0, n)) << n;
}

TEST(SimdExp2, FadesToZeroBelowTheLeastNormalNumber) {
    for (float x = -126.f; x > -150.f; x -= 0.0009765625f) {
        float const y = exp2_of(x);
        ASSERT_TRUE(y >= 0.f && y <= 0x1p-126f) << "2^" << x << " is " << y;
        ASSERT_TRUE(y == 0.f || std::fabs(y - std::exp2(static_cast<double>(x))) <= 0x1p-149) << "2^" << x << " is " << y;
    }
}

template <class T>
class SimdExp2Of : public testing::Test {};
using score_types = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdExp2Of, score_types, type_names);

TYPED_TEST(SimdExp2Of, IsExactlyZeroFarBelowAndForMinusInfinity) {
    using T = TypeParam;
    T const edge = std::is_same_v<T, double> ? T(-1080) : T(-150);
    std::vector<T> far{edge,    std::nextafter(edge, T(-HUGE_VAL)), 2 * edge,
                       T(-1e6), std::numeric_limits<T>::lowest(),   -std::numeric_limits<T>::infinity()};
    for (int i = 0; i < 1000; ++i) far.push_back(edge - T(i) * T(0.37));
    for (T const x : far) ASSERT_TRUE(same_bits(exp2_of(x), T(0))) << "2^" << x << " is " << exp2_of(x);
}

TYPED_TEST(SimdExp2Of, NanIsNanAndItsNeighboursAreNot) {
    using T = TypeParam;
    constexpr int W = lane_count<T>;
    for (int nan = 0; nan < 4 * W; ++nan) {
        std::vector<T> values(static_cast<std::size_t>(4 * W), T(-2));
        values[static_cast<std::size_t>(nan)] =
            nan % 2 == 0 ? std::numeric_limits<T>::quiet_NaN() : -std::numeric_limits<T>::quiet_NaN();
        exp2_all(values.data());
        for (int i = 0; i < 4 * W; ++i) {
            T const y = values[static_cast<std::size_t>(i)];
            ASSERT_TRUE(i == nan ? std::isnan(y) : y == T(0.25)) << "lane " << i << " is " << y;
        }
    }
}

TYPED_TEST(SimdExp2Of, AnyNumberOfVectorsIsTheSame) {
    using T = TypeParam;
    constexpr std::size_t W = static_cast<std::size_t>(lane_count<T>);
    std::mt19937 random{5};
    std::uniform_real_distribution<T> uniform{T(-20), T(0)};
    std::vector<T> x(8 * W);
    for (T& value : x) value = uniform(random);
    std::vector<T> one = x, two = x, four = x, eight = x;
    for (std::size_t i = 0; i < 8; ++i) exp2_all<T, 1>(&one[i * W]);
    for (std::size_t i = 0; i < 8; i += 2) exp2_all<T, 2>(&two[i * W]);
    for (std::size_t i = 0; i < 8; i += 4) exp2_all<T, 4>(&four[i * W]);
    exp2_all<T, 8>(eight.data());
    EXPECT_EQ(one, two);
    EXPECT_EQ(one, four);
    EXPECT_EQ(one, eight);
}

TEST(SimdExp2, F64IsWithinTwoUlps) {
    if (std::numeric_limits<long double>::digits < 64) GTEST_SKIP() << "long double is no wider than double here";
    constexpr std::size_t count = 4 * static_cast<std::size_t>(lane_count<double>);
    std::mt19937_64 random{9};
    double worst = 0;
    for (double const scale : {1e-9, 0.5, 1.0, 20.0, 1022.0}) {
        std::uniform_real_distribution<double> uniform{-scale, scale};
        for (int round = 0; round < 20000; ++round) {
            double x[count], y[count];
            for (std::size_t i = 0; i < count; ++i) y[i] = x[i] = uniform(random);
            exp2_all(y);
            for (std::size_t i = 0; i < count; ++i) {
                long double const exact = std::exp2(static_cast<long double>(x[i]));
                long double const ulp = std::ldexp(1.0L, std::ilogb(exact) - 52);
                double const error = static_cast<double>(std::fabs(static_cast<long double>(y[i]) - exact) / ulp);
                worst = error > worst || std::isnan(error) ? error : worst;
            }
            ASSERT_FALSE(std::isnan(worst));
        }
    }
    RecordProperty("worst_ulp", std::to_string(worst));
    EXPECT_LE(worst, 2.0);
}

}    // namespace
}    // namespace imbrex_test
