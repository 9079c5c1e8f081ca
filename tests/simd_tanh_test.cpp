// tanh of lanes on the instruction set this file is compiled for, against std::tanh of a wider type.
#include "imbrex/simd/tanh.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "simd_lanes.hpp"

namespace imbrex_test {
namespace {

template <class T>
void tanh_all(T* values) {    // one vector
    imbrex::tanh(lanes<T>::load_unaligned(values)).store_unaligned(values);
}

// In units of the last place of T at the exact value.
template <class T, class Wide>
double error_in_ulps(T y, Wide exact) {
    if (std::isnan(y)) return std::numeric_limits<double>::infinity();
    int const last = std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1) - (std::numeric_limits<T>::digits - 1);
    return static_cast<double>(std::fabs(static_cast<Wide>(y) - exact) / std::ldexp(Wide(1), last));
}

#if defined(__aarch64__) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
constexpr std::uint32_t usual_step = 4999;
#else
constexpr std::uint32_t usual_step = 101;
#endif

// Every usual_step-th float from `from` to `to`, two positive ones, and its negative.
void expect_within_two_ulps(float from, float to) {
    constexpr std::uint32_t W = static_cast<std::uint32_t>(lane_count<float>);
    double worst = 0;
    float at = 0;
    for (std::uint32_t bits = std::bit_cast<std::uint32_t>(from); bits <= std::bit_cast<std::uint32_t>(to); bits += W * usual_step) {
        float x[W], y[W];
        for (std::uint32_t i = 0; i < W; ++i) {
            float const size = std::min(to, std::bit_cast<float>(bits + i * usual_step));
            y[i] = x[i] = i % 2 == 0 ? size : -size;
        }
        tanh_all(y);
        for (std::uint32_t i = 0; i < W; ++i) {
            double const error = error_in_ulps(y[i], std::tanh(static_cast<double>(x[i])));
            if (error > worst) worst = error, at = x[i];
        }
    }
    testing::Test::RecordProperty("worst_ulp", std::to_string(worst));
    std::printf("worst error %.4f ulp, at %.9g\n", worst, static_cast<double>(at));
    EXPECT_LE(worst, 2.0);
}

TEST(SimdTanh, IsWithinTwoUlpsWhereItIsAPolynomial) { expect_within_two_ulps(0x1p-126f, 0.56f); }
TEST(SimdTanh, IsWithinTwoUlpsWhereItIsAnExponential) { expect_within_two_ulps(0.54f, 10.f); }
TEST(SimdTanh, IsWithinTwoUlpsWhereItIsOne) { expect_within_two_ulps(9.f, std::numeric_limits<float>::max()); }

TEST(SimdTanh, F64IsWithinFourUlps) {
    if (std::numeric_limits<long double>::digits < 64) GTEST_SKIP() << "long double is no wider than double here";
    constexpr std::size_t W = static_cast<std::size_t>(lane_count<double>);
    std::mt19937_64 random{11};
    double worst = 0;
    for (double const scale : {1e-9, 0.1, 0.55, 0.7, 3.0, 20.0, 700.0}) {
        std::uniform_real_distribution<double> uniform{-scale, scale};
        for (int round = 0; round < 20000; ++round) {
            double x[W], y[W];
            for (std::size_t i = 0; i < W; ++i) y[i] = x[i] = uniform(random);
            tanh_all(y);
            for (std::size_t i = 0; i < W; ++i) worst = std::max(worst, error_in_ulps(y[i], std::tanh(static_cast<long double>(x[i]))));
        }
    }
    RecordProperty("worst_ulp", std::to_string(worst));
    std::printf("worst error %.4f ulp\n", worst);
    EXPECT_LE(worst, 4.0);
}

template <class T>
class SimdTanhOf : public testing::Test {};
using score_types = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdTanhOf, score_types, type_names);

TYPED_TEST(SimdTanhOf, SaturatesToOne) {
    using T = TypeParam;
    T const edge = std::is_same_v<T, double> ? T(19.1) : T(9.02);
    for (T const x : {edge, 2 * edge, T(1e6), std::numeric_limits<T>::max(), std::numeric_limits<T>::infinity()}) {
        EXPECT_EQ(imbrex::tanh(x), T(1)) << x;
        EXPECT_EQ(imbrex::tanh(-x), T(-1)) << x;
    }
}

TYPED_TEST(SimdTanhOf, IsOddAndNeverBeyondOne) {
    using T = TypeParam;
    EXPECT_EQ(imbrex::tanh(T(0)), T(0));
    std::mt19937 random{3};
    std::normal_distribution<T> normal{T(0), T(4)};
    for (int i = 0; i < 100000; ++i) {
        T const x = normal(random), y = imbrex::tanh(x);
        ASSERT_TRUE(same_bits(imbrex::tanh(-x), -y)) << x;
        ASSERT_LE(std::abs(y), T(1)) << x;
    }
}

TYPED_TEST(SimdTanhOf, NanIsNanAndItsNeighboursAreNot) {
    using T = TypeParam;
    constexpr std::size_t W = static_cast<std::size_t>(lane_count<T>);
    for (std::size_t nan = 0; nan < W; ++nan) {
        T values[W];
        std::fill_n(values, W, T(100));
        values[nan] = std::numeric_limits<T>::quiet_NaN();
        tanh_all(values);
        for (std::size_t i = 0; i < W; ++i) ASSERT_TRUE(i == nan ? std::isnan(values[i]) : values[i] == T(1)) << "lane " << i;
    }
}

TYPED_TEST(SimdTanhOf, ANumberIsWhatEachLaneIs) {
    using T = TypeParam;
    constexpr std::size_t W = static_cast<std::size_t>(lane_count<T>);
    std::mt19937 random{4};
    std::normal_distribution<T> normal{T(0), T(1)};
    for (int round = 0; round < 1000; ++round) {
        T x[W], y[W];
        for (std::size_t i = 0; i < W; ++i) y[i] = x[i] = normal(random);
        tanh_all(y);
        for (std::size_t i = 0; i < W; ++i) ASSERT_TRUE(same_bits(y[i], imbrex::tanh(x[i]))) << x[i];
    }
}

}    // namespace
}    // namespace imbrex_test
