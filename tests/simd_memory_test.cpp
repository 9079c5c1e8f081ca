// The seam's loads and stores, whole and cut, in the type itself and in the 16-bit types that widen to it, held to the scalar
// conversions of dtype.hpp.
#include "imbrex/simd.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "guard.hpp"
#include "simd_lanes.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f16;

template <class T>
T number(int i) {
    if constexpr (std::is_floating_point_v<T>)
        return static_cast<T>(i + 1) / T(4);
    else
        return T(static_cast<float>(i + 1) / 4.f);
}

template <class Wide, class Stored>
struct memory_case {
    using T = Wide;
    using E = Stored;
};
template <class C>
class SimdMemory : public testing::Test {};
struct memory_names {
    template <class C>
    static std::string GetName(int) {
        return std::string{imbrex::dtype_name<typename C::T>()} + "From" + std::string{imbrex::dtype_name<typename C::E>()};
    }
};
using memory_cases =
    testing::Types<memory_case<float, float>, memory_case<float, bf16>, memory_case<float, f16>, memory_case<double, double>>;
TYPED_TEST_SUITE(SimdMemory, memory_cases, memory_names);

TYPED_TEST(SimdMemory, LoadReadsAVectorAtAnyElementAndNothingBeyondIt) {
    using T = typename TypeParam::T;
    using E = typename TypeParam::E;
    constexpr int W = lane_count<T>;
    for (guard const where : {guard::after, guard::before}) {
        guarded<E> const memory(static_cast<std::size_t>(W), where);
        for (int i = 0; i < W; ++i) memory.data()[i] = number<E>(i);
        auto const x = lanes_of<T>(seam<T>::load(memory.data()));
        for (int i = 0; i < W; ++i) EXPECT_EQ(x[static_cast<std::size_t>(i)], number<T>(i));
    }
    std::vector<E> many(static_cast<std::size_t>(3 * W));
    for (int i = 0; i < 3 * W; ++i) many[static_cast<std::size_t>(i)] = number<E>(i);
    for (int offset = 0; offset <= 2 * W; ++offset) {
        auto const x = lanes_of<T>(seam<T>::load(many.data() + offset));
        for (int i = 0; i < W; ++i) ASSERT_EQ(x[static_cast<std::size_t>(i)], number<T>(offset + i));
    }
}

TYPED_TEST(SimdMemory, LoadFirstReadsNElementsAndNothingBeyondThemAndZeroElsewhere) {
    using T = typename TypeParam::T;
    using E = typename TypeParam::E;
    constexpr int W = lane_count<T>;
    for (int n = 0; n <= W; ++n) {
        if (n == W) continue;    // whole vectors have load()
        for (guard const where : {guard::after, guard::before}) {
            guarded<E> const memory(static_cast<std::size_t>(n), where);
            for (int i = 0; i < n; ++i) memory.data()[i] = number<E>(i);
            auto const x = lanes_of<T>(seam<T>::load_first(memory.data(), n));
            for (int i = 0; i < W; ++i) {
                ASSERT_TRUE(same_bits(x[static_cast<std::size_t>(i)], i < n ? number<T>(i) : T(0)))
                    << "n " << n << ", lane " << i;
            }
        }
    }
}

TYPED_TEST(SimdMemory, StoreWritesAVectorAtAnyElementAndNothingBeyondIt) {
    using T = typename TypeParam::T;
    using E = typename TypeParam::E;
    constexpr int W = lane_count<T>;
    alignas(64) array_of<T, W> values;
    for (int i = 0; i < W; ++i) values[i] = number<T>(i);
    E const untouched = number<E>(99);
    for (int offset = 0; offset <= 2 * W; ++offset) {
        std::vector<E> memory(static_cast<std::size_t>(3 * W), untouched);
        seam<T>::store(memory.data() + offset, lanes<T>::load_aligned(values));
        for (int i = 0; i < 3 * W; ++i) {
            E const expected = i >= offset && i < offset + W ? number<E>(i - offset) : untouched;
            ASSERT_TRUE(same_bits(memory[static_cast<std::size_t>(i)], expected)) << "offset " << offset << ", element " << i;
        }
    }
    guarded<E> const exact(static_cast<std::size_t>(W));
    seam<T>::store(exact.data(), lanes<T>::load_aligned(values));
}

TYPED_TEST(SimdMemory, StoreFirstWritesNElementsAndNothingBeyondThem) {
    using T = typename TypeParam::T;
    using E = typename TypeParam::E;
    constexpr int W = lane_count<T>;
    alignas(64) array_of<T, W> values;
    for (int i = 0; i < W; ++i) values[i] = number<T>(i);
    auto const x = lanes<T>::load_aligned(values);
    E const untouched = number<E>(99);
    for (int n = 0; n < W; ++n) {
        std::vector<E> memory(static_cast<std::size_t>(2 * W), untouched);
        seam<T>::store_first(memory.data() + 1, x, n);
        for (int i = 0; i < 2 * W; ++i) {
            E const expected = i >= 1 && i < 1 + n ? number<E>(i - 1) : untouched;
            ASSERT_TRUE(same_bits(memory[static_cast<std::size_t>(i)], expected)) << "n " << n << ", element " << i;
        }
        for (guard const where : {guard::after, guard::before}) {
            guarded<E> const exact(static_cast<std::size_t>(n), where);
            seam<T>::store_first(exact.data(), x, n);
            for (int i = 0; i < n; ++i) ASSERT_TRUE(same_bits(exact.data()[i], number<E>(i)));
        }
    }
}

template <class E>
class SimdConversion : public testing::Test {};
using storage_types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(SimdConversion, storage_types, type_names);

// Rounds `values` (a multiple of a vector) in vectors and one by one.
template <class E>
void expect_rounds_like_scalar(std::vector<float> const& values) {
    constexpr int W = lane_count<float>;
    array_of<E, W> rounded;
    for (std::size_t at = 0; at + W <= values.size(); at += W) {
        seam<float>::store(rounded, lanes<float>::load_unaligned(&values[at]));
        for (int i = 0; i < W; ++i) {
            float const x = values[at + static_cast<std::size_t>(i)];
            E const expected(x);
            if (std::isnan(x)) {
                ASSERT_TRUE(std::isnan(imbrex::to_float(rounded[i]))) << "NaN " << std::bit_cast<std::uint32_t>(x);
                ASSERT_EQ(rounded[i].bits >> 15, expected.bits >> 15) << "sign of NaN " << std::bit_cast<std::uint32_t>(x);
            } else {
                ASSERT_EQ(rounded[i].bits, expected.bits) << x << " (bits " << std::bit_cast<std::uint32_t>(x) << ")";
            }
        }
    }
}

TYPED_TEST(SimdConversion, EveryBitPatternWidensLikeTheScalar) {
    using E = TypeParam;
    constexpr int W = lane_count<float>;
    array_of<E, W> stored;
    for (unsigned b = 0; b < 65536; b += W) {
        for (unsigned i = 0; i < W; ++i) stored[i] = E::from_bits(static_cast<std::uint16_t>(b + i));
        auto const x = lanes_of<float>(seam<float>::load(stored));
        auto const first = lanes_of<float>(seam<float>::load_first(stored, W - 1));
        for (unsigned i = 0; i < W; ++i) {
            ASSERT_TRUE(same(x[i], imbrex::to_float(stored[i]))) << "bits " << b + i;
            ASSERT_TRUE(i + 1 == W || same(first[i], x[i])) << "bits " << b + i;
        }
    }
}

TYPED_TEST(SimdConversion, EveryBitPatternComesBackUnchangedAndNanStaysNan) {
    using E = TypeParam;
    std::vector<float> values;
    for (unsigned b = 0; b < 65536; ++b) values.push_back(imbrex::to_float(E::from_bits(static_cast<std::uint16_t>(b))));
    expect_rounds_like_scalar<E>(values);
}

// The midpoint of each pair of neighbours is a tie; the floats beside it are not. Includes the step to infinity.
TYPED_TEST(SimdConversion, TiesRoundToEvenAndTheirNeighboursToTheNearer) {
    using E = TypeParam;
    std::vector<float> values;
    for (unsigned b = 0; b < 0x7fff; ++b) {
        double const low = imbrex::to_double(E::from_bits(static_cast<std::uint16_t>(b)));
        double const high = imbrex::to_double(E::from_bits(static_cast<std::uint16_t>(b + 1)));
        if (std::isnan(low) || std::isnan(high)) continue;
        double const step =
            std::isinf(high) ? low - imbrex::to_double(E::from_bits(static_cast<std::uint16_t>(b - 1))) : high - low;
        float const tie = static_cast<float>(low + step / 2);
        for (float const x : {tie, std::nextafter(tie, 0.f), std::nextafter(tie, HUGE_VALF)}) {
            values.push_back(x);
            values.push_back(-x);
        }
    }
    values.resize(values.size() / 64 * 64 + 64, 0.f);
    expect_rounds_like_scalar<E>(values);
}

TYPED_TEST(SimdConversion, SpecialValuesAndNansOfAnyPayloadRoundLikeTheScalar) {
    using E = TypeParam;
    std::vector<float> values{0.f,
                              -0.f,
                              HUGE_VALF,
                              -HUGE_VALF,
                              std::numeric_limits<float>::max(),
                              std::numeric_limits<float>::lowest(),
                              std::numeric_limits<float>::min(),
                              std::numeric_limits<float>::denorm_min(),
                              65504.f,
                              65520.f,
                              65519.996f,
                              1e-8f};
    for (std::uint32_t payload = 1; payload != 0 && payload <= 0x7fffff; payload <<= 1) {
        for (std::uint32_t const sign : {0u, 0x80000000u}) {
            values.push_back(std::bit_cast<float>(sign | 0x7f800000u | payload));
            values.push_back(std::bit_cast<float>(sign | 0x7f800000u | (0x7fffffu & ~(payload - 1))));
            values.push_back(std::bit_cast<float>(sign | 0x7f800000u | payload | 1u));
        }
    }
    std::mt19937 random{20250607};
    while (values.size() < 1u << 16) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    expect_rounds_like_scalar<E>(values);
}

}    // namespace
}    // namespace imbrex_test
