// dtype.hpp's conversions against an oracle that shares no code with them: values come from the bit fields by ldexp, and
// rounding from std::nearbyint on the value divided by its quantum.
#include "imbrex/dtype.hpp"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

namespace {

using imbrex::bf16;
using imbrex::f16;

// The formats as their definitions state them.
template <class T>
struct fields;
template <>
struct fields<f16> {
    static constexpr int fraction_bits = 10, bias = 15, max_exponent_field = 31;
    static constexpr std::uint16_t infinity = 0x7c00, quiet = 0x0200;
};
template <>
struct fields<bf16> {
    static constexpr int fraction_bits = 7, bias = 127, max_exponent_field = 255;
    static constexpr std::uint16_t infinity = 0x7f80, quiet = 0x0040;
};

template <class T>
bool is_nan_bits(unsigned bits) {
    return (bits & 0x7fffu) > fields<T>::infinity;
}

// A finite or infinite value of T, from its fields.
template <class T>
double oracle_value(unsigned bits) {
    int const field = static_cast<int>(bits & 0x7fffu) >> fields<T>::fraction_bits;
    int const fraction = static_cast<int>(bits) & ((1 << fields<T>::fraction_bits) - 1);
    int const implicit = field == 0 ? 0 : 1 << fields<T>::fraction_bits;
    int const scale = (field == 0 ? 1 : field) - fields<T>::bias - fields<T>::fraction_bits;
    double const magnitude = field == fields<T>::max_exponent_field ? std::numeric_limits<double>::infinity()
                                                                    : std::ldexp(implicit + fraction, scale);
    return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

// x rounded to T, as a double: the multiple of T's quantum at x that is nearest, ties to even.
template <class T>
double oracle_round(double x) {
    if (x == 0 || !std::isfinite(x)) return x;
    int const exponent = std::max(std::ilogb(x), 1 - fields<T>::bias);
    int const quantum = exponent - fields<T>::fraction_bits;
    double const rounded = std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum);
    double const limit = std::ldexp(1.0, fields<T>::max_exponent_field - fields<T>::bias);
    return std::fabs(rounded) >= limit ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

// Hides a value from the optimiser, so that a conversion happens at run time.
template <class T>
T opaque(T x) {
    T volatile hidden = x;
    return hidden;
}

template <class T>
class Storage16 : public testing::Test {};
struct type_names {
    template <class T>
    static std::string GetName(int) {
        return std::string{imbrex::dtype_name<T>()};
    }
};
using storage_types = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(Storage16, storage_types, type_names);

TYPED_TEST(Storage16, EveryBitPatternWidensExactly) {
    using T = TypeParam;
    for (unsigned b = 0; b < 65536; ++b) {
        T const x = T::from_bits(static_cast<std::uint16_t>(b));
        if (is_nan_bits<T>(b)) continue;
        double const expected = oracle_value<T>(b);
        ASSERT_EQ(imbrex::to_double(x), expected) << "bits " << b;
        ASSERT_EQ(imbrex::to_float(x), static_cast<float>(expected)) << "bits " << b;
        ASSERT_EQ(std::signbit(imbrex::to_double(x)), b >> 15 != 0) << "bits " << b;
        ASSERT_EQ(std::signbit(imbrex::to_float(x)), b >> 15 != 0) << "bits " << b;
    }
}

TYPED_TEST(Storage16, EveryNumberSurvivesARoundTrip) {
    using T = TypeParam;
    for (unsigned b = 0; b < 65536; ++b) {
        T const x = T::from_bits(static_cast<std::uint16_t>(b));
        if (is_nan_bits<T>(b)) continue;
        ASSERT_EQ(T(imbrex::to_float(x)).bits, b);
        ASSERT_EQ(T(imbrex::to_double(x)).bits, b);
    }
}

TYPED_TEST(Storage16, EveryNanKeepsSignAndPayloadAndComesBackQuiet) {
    using T = TypeParam;
    for (unsigned b = 0; b < 65536; ++b) {
        if (!is_nan_bits<T>(b)) continue;
        T const x = T::from_bits(static_cast<std::uint16_t>(b));
        auto const wide = std::bit_cast<std::uint32_t>(imbrex::to_float(x));
        int const grow = 23 - fields<T>::fraction_bits;
        ASSERT_EQ(wide & 0x7fffffu, (b << grow) & 0x7fffffu) << "payload of bits " << b;
        ASSERT_EQ(wide & 0x7f800000u, 0x7f800000u);
        ASSERT_EQ(wide >> 31, b >> 15);
        ASSERT_EQ(T(imbrex::to_float(x)).bits, b | fields<T>::quiet);
        ASSERT_EQ(T(imbrex::to_double(x)).bits, b | fields<T>::quiet);
    }
}

TYPED_TEST(Storage16, ANanWhosePayloadIsCutOffNeverBecomesInfinity) {
    using T = TypeParam;
    for (std::uint32_t const payload : {0x1u, 0x2u, 0xfffu, 0x1000u, 0x1fffu, 0x400000u, 0x7fffffu}) {
        T const positive{std::bit_cast<float>(0x7f800000u | payload)};
        T const negative{std::bit_cast<float>(0xff800000u | payload)};
        EXPECT_EQ(positive.bits, fields<T>::infinity | fields<T>::quiet | payload >> (23 - fields<T>::fraction_bits));
        EXPECT_EQ(negative.bits, positive.bits | 0x8000u);
    }
    for (std::uint64_t const payload : {std::uint64_t{1}, std::uint64_t{0xffffffff}, (std::uint64_t{1} << 52) - 1}) {
        T const x{std::bit_cast<double>(std::uint64_t{0x7ff} << 52 | payload)};
        EXPECT_EQ(x.bits, fields<T>::infinity | fields<T>::quiet | payload >> (52 - fields<T>::fraction_bits));
    }
}

// Every tie between neighbours, in both signs, and the numbers of the source type just beside it. The tie above the
// largest finite value is among them: its upper neighbour is 2^(largest exponent + 1), which is written as infinity.
TYPED_TEST(Storage16, TiesGoToEvenAndTheirNeighboursToTheNearest) {
    using T = TypeParam;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (unsigned low = 0; low < fields<T>::infinity; ++low) {
        unsigned const high = low + 1;
        double const past_largest = std::ldexp(1.0, fields<T>::max_exponent_field - fields<T>::bias);
        double const above = high == fields<T>::infinity ? past_largest : oracle_value<T>(high);
        double const tie = oracle_value<T>(low) / 2 + above / 2;
        unsigned const even = (low & 1u) == 0 ? low : high;
        for (unsigned const sign : {0u, 0x8000u}) {
            double const d = sign != 0 ? -tie : tie;
            ASSERT_EQ(T(d).bits, sign | even) << d;
            ASSERT_EQ(T(std::nextafter(d, 0.0)).bits, sign | low) << d;
            ASSERT_EQ(T(std::nextafter(d, 2 * d)).bits, sign | high) << d;
            auto const f = static_cast<float>(d);
            if (static_cast<double>(f) != d) continue;    // below float's least denormal
            ASSERT_EQ(T(f).bits, sign | even) << d;
            ASSERT_EQ(T(std::nextafter(f, 0.0f)).bits, sign | low) << d;
            ASSERT_EQ(T(std::nextafter(f, sign != 0 ? -infinity : infinity)).bits, sign | high) << d;
        }
    }
}

// A double that lies nearer to a tie than float can tell: going through float would reach the tie, and then even.
TYPED_TEST(Storage16, DoublesAreRoundedOnce) {
    using T = TypeParam;
    int through_float_differs = 0;
    for (unsigned low = 0; low + 1 < fields<T>::infinity; ++low) {
        double const tie = (oracle_value<T>(low) + oracle_value<T>(low + 1)) / 2;
        double const above = tie * (1 + 0x1p-40), below = tie * (1 - 0x1p-40);
        ASSERT_EQ(T(above).bits, low + 1);
        ASSERT_EQ(T(below).bits, low);
        ASSERT_EQ(imbrex::round_to<T>(-above).bits, (low + 1) | 0x8000u);
        through_float_differs += T(static_cast<float>(above)).bits != low + 1 || T(static_cast<float>(below)).bits != low;
    }
    EXPECT_GT(through_float_differs, 0.9 * fields<T>::infinity) << "the trap is not set";
}

TYPED_TEST(Storage16, RandomBitPatternsRoundAsTheOracleDoes) {
    using T = TypeParam;
    constexpr std::uint64_t seed = 20240611;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random{seed};
    for (int i = 0; i < 1'000'000; ++i) {
        std::uint64_t const word = random();
        auto const f = std::bit_cast<float>(static_cast<std::uint32_t>(word));
        // Exponents within twice the range of T; plain random doubles would nearly all overflow.
        double const d = std::ldexp(1 + static_cast<double>(word >> 12) * 0x1p-52,
                                    static_cast<int>(word % static_cast<unsigned>(4 * fields<T>::bias)) - 2 * fields<T>::bias);
        if (!std::isnan(f)) {
            double const expected = oracle_round<T>(static_cast<double>(f));
            ASSERT_EQ(imbrex::to_double(T(f)), expected) << f;
            ASSERT_EQ(std::signbit(imbrex::to_float(T(f))), std::signbit(f)) << f;
        }
        ASSERT_EQ(imbrex::to_double(T(d)), oracle_round<T>(d)) << d;
    }
}

TYPED_TEST(Storage16, ZerosKeepTheirSignAndTheTiniestBecomeZeros) {
    using T = TypeParam;
    EXPECT_EQ(T(0.0f).bits, 0);
    EXPECT_EQ(T(-0.0f).bits, 0x8000);
    EXPECT_EQ(T(-0.0).bits, 0x8000);
    EXPECT_EQ(T(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
    EXPECT_EQ(T(std::numeric_limits<double>::denorm_min()).bits, 0);
    EXPECT_EQ(T(-std::numeric_limits<double>::min()).bits, 0x8000);
    double const half_the_least = oracle_value<T>(1) / 2;
    EXPECT_EQ(T(half_the_least).bits, 0);
    EXPECT_EQ(T(std::nextafter(half_the_least, 1.0)).bits, 1);
}

TYPED_TEST(Storage16, InfinitiesStayAndTheHugeBecomeInfinite) {
    using T = TypeParam;
    EXPECT_EQ(T(std::numeric_limits<float>::infinity()).bits, fields<T>::infinity);
    EXPECT_EQ(T(-std::numeric_limits<double>::infinity()).bits, fields<T>::infinity | 0x8000u);
    EXPECT_EQ(T(std::numeric_limits<float>::max()).bits, fields<T>::infinity);
    EXPECT_EQ(T(std::numeric_limits<double>::max()).bits, fields<T>::infinity);
    EXPECT_EQ(T(-std::numeric_limits<double>::max()).bits, fields<T>::infinity | 0x8000u);
}

TEST(F16, OverflowsFrom65520) {
    EXPECT_EQ(f16(65504.0f).bits, 0x7bff);
    EXPECT_EQ(f16(65519.996f).bits, 0x7bff);
    EXPECT_EQ(f16(std::nextafter(65520.0, 0.0)).bits, 0x7bff);
    EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
    EXPECT_EQ(f16(-65520.0).bits, 0xfc00);
}

TEST(Bf16, OverflowsFromTheTieAboveItsLargest) {
    EXPECT_EQ(bf16(0x1.fefffep127f).bits, 0x7f7f);
    EXPECT_EQ(bf16(0x1.ffp127f).bits, 0x7f80);
    EXPECT_EQ(bf16(std::nextafter(0x1.ffp127, 0.0)).bits, 0x7f7f);
}

template <class T>
int wrong_conversions() {
    int wrong = 0;
    for (unsigned b = 0; b < 65536; ++b) {
        if (is_nan_bits<T>(b)) continue;
        T const x = T::from_bits(static_cast<std::uint16_t>(b));
        wrong += T(opaque(imbrex::to_float(x))).bits != b || T(opaque(imbrex::to_double(x))).bits != b;
    }
    std::uint16_t const one = T(1.0f).bits;
    auto const just_below = static_cast<float>(oracle_value<T>(one + 1u) / 2 + 0.5) - 0x1p-20f;
    return wrong + (T(opaque(just_below)).bits != one) + (T(opaque(-just_below)).bits != (one | 0x8000u));
}

TYPED_TEST(Storage16, TheRoundingModeDoesNotMatter) {
    for (int const mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        ASSERT_EQ(std::fesetround(mode), 0);
        int const wrong = wrong_conversions<TypeParam>();
        std::fesetround(FE_TONEAREST);
        EXPECT_EQ(wrong, 0) << "mode " << mode;
    }
}

// What a function returns when denormals are flushed to zero (FTZ, DAZ); nothing where this test knows no such switch.
#if defined(__SSE__)
std::optional<int> with_denormals_flushed(int (*function)()) {
    unsigned const saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(saved | 0x8040u);
    int const result = function();
    __builtin_ia32_ldmxcsr(saved);
    return result;
}
#else
std::optional<int> with_denormals_flushed(int (*)()) {
    return std::nullopt;
}
#endif

TYPED_TEST(Storage16, FlushingDenormalsToZeroDoesNotMatter) {
    std::optional<int> const wrong = with_denormals_flushed(wrong_conversions<TypeParam>);
    if (!wrong) GTEST_SKIP() << "only x86's FTZ and DAZ are set here";
    EXPECT_EQ(*wrong, 0);
}

template <class Native>
void expect_agreement_with_native() {
    using limits = std::numeric_limits<float>;
    constexpr std::uint64_t seed = 7;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random{seed};
    for (int i = 0; i < 4'000'000; ++i) {
        auto word = static_cast<std::uint32_t>(random());
        if (i % 2 != 0) word = (word & 0x8fffffffu) + 0x30000000u;    // half of them in or near f16's range
        auto const f = std::bit_cast<float>(word);
        f16 const theirs = static_cast<Native>(f);
        if (std::isnan(f)) ASSERT_TRUE(is_nan_bits<f16>(f16(f).bits));
        else ASSERT_EQ(f16(f).bits, theirs.bits) << f;
    }
    for (unsigned b = 0; b < 65536; ++b) {
        if (is_nan_bits<f16>(b)) continue;
        f16 const x = f16::from_bits(static_cast<std::uint16_t>(b));
        ASSERT_EQ(static_cast<float>(static_cast<Native>(x)), imbrex::to_float(x));
    }
    ASSERT_EQ(static_cast<float>(imbrex::round_to<Native>(0.1)), imbrex::to_float(f16(0.1)));
    ASSERT_EQ(imbrex::to_float(static_cast<Native>(limits::infinity())), limits::infinity());
}

TEST(F16, AgreesWithTheCompilersFloat16) {
    [](auto probe) {
        using native = typename decltype(probe)::type;
        if constexpr (!std::is_class_v<native>) expect_agreement_with_native<native>();
        else GTEST_SKIP() << "this compiler has no _Float16 for this target";
    }(std::type_identity<imbrex::detail::native_f16>{});
}

}    // namespace
