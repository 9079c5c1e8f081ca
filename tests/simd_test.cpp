// simd.hpp on the instruction set this file is compiled for: the seam's arithmetic against plain scalar code, lane by lane.
// Its loads and stores are in simd_memory_test.cpp, its exp2 in simd_exp2_test.cpp.
#include "imbrex/simd.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "simd_lanes.hpp"

namespace imbrex_test {
namespace {

using imbrex::index;

template <class T>
class Simd : public testing::Test {};
using score_types = testing::Types<float, double>;
TYPED_TEST_SUITE(Simd, score_types, type_names);

TYPED_TEST(Simd, LanesOfIntegersMatchThoseOfScores) {
    using T = TypeParam;
    static_assert(sizeof(lane_int<T>) == sizeof(T) && std::is_signed_v<lane_int<T>>);
    EXPECT_EQ(lane_count<T>, lane_count<lane_int<T>>);
    EXPECT_EQ(static_cast<int>(sizeof(lanes<T>)), lane_count<T> * static_cast<int>(sizeof(T)));
}

TYPED_TEST(Simd, TransposeSwapsRowsAndColumns) {
    using T = TypeParam;
    constexpr int W = lane_count<T>;
    array_of<lanes<T>, W> r;
    for (int i = 0; i < W; ++i) {
        array_of<T, W> row;
        for (int j = 0; j < W; ++j) row[j] = static_cast<T>(100 * i + j);
        r[i] = lanes<T>::load_unaligned(row);
    }
    seam<T>::transpose(r);
    for (int i = 0; i < W; ++i) {
        auto const row = lanes_of<T>(r[i]);
        for (int j = 0; j < W; ++j) ASSERT_EQ(row[static_cast<std::size_t>(j)], static_cast<T>(100 * j + i)) << i << ", " << j;
    }
}

TYPED_TEST(Simd, SumsPutsTheSumOfEachVectorIntoItsLane) {
    using T = TypeParam;
    constexpr int W = lane_count<T>;
    std::mt19937 random{77};
    std::normal_distribution<T> normal;
    for (int round = 0; round < 100; ++round) {
        array_of<lanes<T>, W> integers, reals;
        array_of<T, W> whole, sum, magnitude;
        for (int i = 0; i < W; ++i) {
            array_of<T, W> a, b;
            whole[i] = sum[i] = magnitude[i] = 0;
            for (int j = 0; j < W; ++j) {
                a[j] = static_cast<T>(static_cast<int>(random() % 2048) - 1024);
                b[j] = normal(random);
                whole[i] += a[j];
                sum[i] += b[j];
                magnitude[i] += std::fabs(b[j]);
            }
            integers[i] = lanes<T>::load_unaligned(a);
            reals[i] = lanes<T>::load_unaligned(b);
        }
        auto const exact = lanes_of<T>(seam<T>::sums(integers));
        auto const near = lanes_of<T>(seam<T>::sums(reals));
        for (int i = 0; i < W; ++i) {
            ASSERT_EQ(exact[static_cast<std::size_t>(i)], whole[i]) << "lane " << i;
            ASSERT_NEAR(near[static_cast<std::size_t>(i)], sum[i], magnitude[i] * W * std::numeric_limits<T>::epsilon())
                << "lane " << i;
        }
    }
}

TYPED_TEST(Simd, SumsKeepANanInItsLaneAndOutOfTheOthers) {
    using T = TypeParam;
    constexpr int W = lane_count<T>;
    for (int row = 0; row < W; ++row) {
        for (int column = 0; column < W; ++column) {
            array_of<lanes<T>, W> r;
            for (int i = 0; i < W; ++i) {
                array_of<T, W> values;
                for (int j = 0; j < W; ++j) values[j] = i == row && j == column ? std::numeric_limits<T>::quiet_NaN() : T(1);
                r[i] = lanes<T>::load_unaligned(values);
            }
            auto const sums = lanes_of<T>(seam<T>::sums(r));
            for (int i = 0; i < W; ++i)
                ASSERT_TRUE(same(sums[static_cast<std::size_t>(i)], i == row ? std::numeric_limits<T>::quiet_NaN() : T(W)));
        }
    }
}

// Every pair of these, in every lane.
template <class T>
std::vector<T> interesting() {
    using limits = std::numeric_limits<T>;
    return {T(0),
            T(1),
            T(-1),
            T(2.5),
            T(-2.5),
            limits::max(),
            limits::lowest(),
            limits::min(),
            -limits::min(),
            limits::infinity(),
            -limits::infinity(),
            limits::denorm_min()};
}

template <class T, class F>
T in_lanes(F f, T a, T b) {
    auto const result = lanes_of<T>(f(lanes<T>(a), lanes<T>(b)));
    for (T const x : result) EXPECT_TRUE(same(x, result[0]));
    return result[0];
}

TYPED_TEST(Simd, AtLeastAndAtMostAreMaximumAndMinimum) {
    using T = TypeParam;
    for (T const bound : interesting<T>()) {
        for (T const x : interesting<T>()) {
            EXPECT_EQ(in_lanes<T>(seam<T>::at_least, bound, x), std::max(bound, x)) << bound << ", " << x;
            EXPECT_EQ(in_lanes<T>(seam<T>::at_most, bound, x), std::min(bound, x)) << bound << ", " << x;
        }
    }
}

TYPED_TEST(Simd, AtLeastAndAtMostHandANanOn) {
    using T = TypeParam;
    for (T const bound : interesting<T>()) {
        EXPECT_TRUE(std::isnan(in_lanes<T>(seam<T>::at_least, bound, std::numeric_limits<T>::quiet_NaN()))) << bound;
        EXPECT_TRUE(std::isnan(in_lanes<T>(seam<T>::at_most, bound, std::numeric_limits<T>::quiet_NaN()))) << bound;
    }
}

TYPED_TEST(Simd, FmaIsAProductAndASum) {
    using T = TypeParam;
    auto const x = lanes_of<T>(seam<T>::fma(lanes<T>(T(3)), lanes<T>(T(5)), lanes<T>(T(-7))));
    for (T const value : x) EXPECT_EQ(value, T(8));
}

// (1 + e)^2 - (1 + 2e) = e^2, which a product rounded on its own loses. Only f32 is held to it: f64 is a checking aid that takes
// xsimd's fma as it is.
TEST(SimdFma, RoundsOnceWhereTheInstructionSetHasOne) {
#if !defined(__FMA__) && !defined(__aarch64__)
    GTEST_SKIP() << "no fused multiply-add in " IMBREX_ISA_NAME;
#endif
    float const e = 0x1p-13f;
    auto const square_and_subtract = [](lanes<float> a, lanes<float> c) { return seam<float>::fma(a, a, c); };
    EXPECT_EQ(in_lanes<float>(square_and_subtract, 1 + e, -(1 + 2 * e)), e * e);
}

TYPED_TEST(Simd, PositionsRepeatForEachRow) {
    using T = TypeParam;
    constexpr int W = lane_count<T>;
    for (int repeat = 1; repeat <= W; repeat *= 2) {
        for (index const first : {index{0}, index{1000}, imbrex::max_length - W}) {
            auto const p = lanes_of<lane_int<T>>(imbrex::positions_from<T>(first, repeat));
            for (int i = 0; i < W; ++i) ASSERT_EQ(p[static_cast<std::size_t>(i)], first + i / repeat);
        }
    }
}

TYPED_TEST(Simd, MasksOfPositionsSelectScoresLaneByLane) {
    using T = TypeParam;
    constexpr int W = lane_count<T>;
    auto const p = imbrex::positions_from<T>(0, 1);
    for (int cut = 0; cut <= W; ++cut) {
        auto const keep = imbrex::as_score_mask<T>(p < lanes<lane_int<T>>(static_cast<lane_int<T>>(cut)));
        auto const x = lanes_of<T>(xsimd::select(keep, lanes<T>(T(1)), lanes<T>(T(2))));
        for (int i = 0; i < W; ++i) ASSERT_EQ(x[static_cast<std::size_t>(i)], i < cut ? T(1) : T(2));
    }
}

TYPED_TEST(Simd, InRegisterChangesNothing) {
    using T = TypeParam;
    for (T const x : interesting<T>()) EXPECT_TRUE(same_bits(lanes_of<T>(imbrex::in_register<T>(lanes<T>(x)))[0], x));
}

}    // namespace
}    // namespace imbrex_test
