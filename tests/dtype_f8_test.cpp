// The 8-bit floating-point types against an oracle that shares no code with them: values come from the bit fields by ldexp, and
// rounding by looking for the nearest of all values.
#include "imbrex/dtype_f8.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace {

using imbrex::f8_e4m3;
using imbrex::f8_e5m2;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The formats as OFP8 states them.
template <class T>
struct fields;
template <>
struct fields<f8_e4m3> {
    static constexpr int fraction_bits = 3, bias = 7;
    static constexpr unsigned largest = 0x7e;
};
template <>
struct fields<f8_e5m2> {
    static constexpr int fraction_bits = 2, bias = 15;
    static constexpr unsigned largest = 0x7b;
};

// The value of a finite pattern without sign.
template <class T>
double oracle_value(unsigned bits) {
    int const field = static_cast<int>(bits) >> fields<T>::fraction_bits;
    int const fraction = static_cast<int>(bits) & ((1 << fields<T>::fraction_bits) - 1);
    int const implicit = field == 0 ? 0 : 1 << fields<T>::fraction_bits;
    return std::ldexp(implicit + fraction, (field == 0 ? 1 : field) - fields<T>::bias - fields<T>::fraction_bits);
}

// The pattern whose value is nearest; of two as near, the even one; the largest for everything beyond it.
template <class T>
unsigned oracle_bits(double x) {
    if (std::fabs(x) >= oracle_value<T>(fields<T>::largest)) return fields<T>::largest | (std::signbit(x) ? 0x80u : 0u);
    unsigned best = 0;
    for (unsigned b = 1; b <= fields<T>::largest; ++b) {
        double const closer = std::fabs(oracle_value<T>(best) - std::fabs(x)) - std::fabs(oracle_value<T>(b) - std::fabs(x));
        if (closer > 0 || (closer == 0 && b % 2 == 0)) best = b;
    }
    return best | (std::signbit(x) ? 0x80u : 0u);
}

template <class T>
class Float8 : public testing::Test {};
struct names {
    template <class T>
    static std::string GetName(int) {
        return std::is_same_v<T, f8_e4m3> ? "e4m3" : "e5m2";
    }
};
using types = testing::Types<f8_e4m3, f8_e5m2>;
TYPED_TEST_SUITE(Float8, types, names);

TYPED_TEST(Float8, EveryFinitePatternWidensExactlyAndComesBack) {
    using T = TypeParam;
    for (unsigned b = 0; b < 256; ++b) {
        if ((b & 0x7f) > fields<T>::largest) continue;
        float const x = imbrex::to_float(T::from_bits(static_cast<std::uint8_t>(b)));
        ASSERT_EQ(std::fabs(x), oracle_value<T>(b & 0x7f)) << "bits " << b;
        ASSERT_EQ(std::signbit(x), b >= 128) << "bits " << b;
        ASSERT_EQ(T(x).bits, b);
    }
}

TEST(Float8Special, E4m3HasTwoNansAndNoInfinity) {
    for (unsigned b : {0x7fu, 0xffu}) {
        float const x = f8_e4m3::from_bits(static_cast<std::uint8_t>(b));
        EXPECT_TRUE(std::isnan(x));
        EXPECT_EQ(std::signbit(x), b == 0xff);
    }
    EXPECT_EQ(imbrex::to_float(f8_e4m3::from_bits(0x7e)), 448.f);
    EXPECT_EQ(imbrex::to_float(f8_e4m3::from_bits(0x01)), 0x1p-9f);
    EXPECT_EQ(imbrex::to_float(f8_e4m3::from_bits(0x08)), 0x1p-6f);
}

TEST(Float8Special, E5m2ReadsInfinitiesAndSixNans) {
    EXPECT_EQ(imbrex::to_float(f8_e5m2::from_bits(0x7c)), infinity);
    EXPECT_EQ(imbrex::to_float(f8_e5m2::from_bits(0xfc)), -infinity);
    for (int b : {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}) {
        float const x = f8_e5m2::from_bits(static_cast<std::uint8_t>(b));
        EXPECT_TRUE(std::isnan(x)) << b;
        EXPECT_EQ(std::signbit(x), b >= 0x80) << b;
    }
    EXPECT_EQ(imbrex::to_float(f8_e5m2::from_bits(0x7b)), 57344.f);
    EXPECT_EQ(imbrex::to_float(f8_e5m2::from_bits(0x01)), 0x1p-16f);
}

TYPED_TEST(Float8, NanStaysNanWithItsSign) {
    using T = TypeParam;
    EXPECT_EQ(T(nan).bits, 0x7f);
    EXPECT_EQ(T(-nan).bits, 0xff);
    EXPECT_EQ(T(std::bit_cast<float>(0xff800001u)).bits, 0xff);
}

TYPED_TEST(Float8, NumbersBeyondTheLargestAndInfinitiesAreWrittenAsTheLargest) {
    using T = TypeParam;
    unsigned const largest = fields<T>::largest;
    auto const limit = static_cast<float>(oracle_value<T>(largest));
    for (float x : {limit, limit * 1.0625f, limit * 1.125f, limit * 4, std::numeric_limits<float>::max(), infinity}) {
        EXPECT_EQ(T(x).bits, largest) << x;
        EXPECT_EQ(T(-x).bits, largest | 0x80u) << x;
    }
}

TYPED_TEST(Float8, RoundsToNearestAtAndBesideEveryTieAndValue) {
    using T = TypeParam;
    for (unsigned b = 0; b < fields<T>::largest; ++b) {
        double const low = oracle_value<T>(b), high = oracle_value<T>(b + 1);
        for (double at : {low, (low + high) / 2, high}) {
            auto const x = static_cast<float>(at);    // exact: three or four bits
            for (float y : {std::nextafter(x, -1e9f), x, std::nextafter(x, 1e9f)}) {
                ASSERT_EQ(T(y).bits, oracle_bits<T>(y)) << y;
                ASSERT_EQ(T(-y).bits, oracle_bits<T>(-y)) << -y;
            }
        }
    }
}

TYPED_TEST(Float8, RoundsFloatsOfEveryExponentToNearest) {
    using T = TypeParam;
    std::mt19937 random{20261130};    // patterns of all floats; the seed is fixed
    for (int i = 0; i < 40000; ++i) {
        auto pattern = static_cast<std::uint32_t>(random());
        if (i % 2 == 0) pattern = (pattern & 0x80ffffffu) | (std::uint32_t{100} + pattern % 48) << 23;    // near the format's own
        float const x = std::bit_cast<float>(pattern);
        if (std::isnan(x)) continue;
        ASSERT_EQ(T(x).bits, oracle_bits<T>(x)) << x;
    }
}

TYPED_TEST(Float8, StorageMayAliasOtherMemory) {
    using T = TypeParam;
    static_assert(imbrex::byte_element<T> && !imbrex::element<T>);
    std::array<std::uint8_t, 2> bytes{0x38, 0x3c};
    auto const* const x = reinterpret_cast<T const*>(bytes.data());
    EXPECT_EQ(imbrex::to_float(x[std::is_same_v<T, f8_e4m3> ? 0 : 1]), 1.f);
}

}    // namespace
