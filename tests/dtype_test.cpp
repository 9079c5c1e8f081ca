// dtype.hpp's vocabulary: which types a tensor may hold, what they map to, how they convert and alias. The values that
// conversions give are in dtype_conversion_test.cpp.
#include "imbrex/dtype.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using imbrex::bf16;
using imbrex::f16;

// The compilers reorder these accesses for a type that may not alias (tried with a plain struct of the same members).
template <class T>
[[gnu::noinline]] float read_after_storage_write(float* value, T* half) {
    *value = 1.0f;
    half->bits = 0;
    return *value;
}

TEST(Dtype, StorageMayAliasOtherMemory) {
    float value = 0;
    auto* const words = reinterpret_cast<std::uint16_t*>(&value);
    EXPECT_EQ(read_after_storage_write(&value, imbrex::as_f16(words) + 1), 0.0f);
    EXPECT_EQ(read_after_storage_write(&value, imbrex::as_bf16(words) + 1), 0.0f);
}

TEST(Dtype, RawWordsAreElementsOnlyOnceTheirFormatIsSaid) {
    static_assert(!imbrex::element<std::uint16_t> && !imbrex::element<std::int16_t>);
    std::array<std::uint16_t, 2> words{0x3c00, 0x3f80};
    std::uint16_t const* const constant = words.data();
    static_assert(std::is_same_v<decltype(imbrex::as_f16(words.data())), f16*>);
    static_assert(std::is_same_v<decltype(imbrex::as_bf16(constant)), bf16 const*>);
    EXPECT_EQ(imbrex::to_float(imbrex::as_f16(constant)[0]), 1.0f);
    EXPECT_EQ(imbrex::to_float(imbrex::as_bf16(words.data())[1]), 1.0f);
    imbrex::as_bf16(words.data())[0] = bf16(-2.0f);
    EXPECT_EQ(words[0], 0xc000);
}

template <class T, class Storage>
constexpr bool is_stored_as = imbrex::element<T> && std::is_same_v<imbrex::storage_of<T>, Storage> &&
                              std::is_same_v<imbrex::storage_of<T const>, Storage>;

TEST(Dtype, ElementTypesMapToTheLibrarysOwn) {
    static_assert(is_stored_as<float, float> && is_stored_as<double, double>);
    static_assert(is_stored_as<f16, f16> && is_stored_as<bf16, bf16>);
    static_assert(is_stored_as<imbrex::detail::native_f16, f16> && is_stored_as<imbrex::detail::native_bf16, bf16>);
    static_assert(!imbrex::element<int> && !imbrex::element<long double> && !imbrex::element<void>);
    static_assert(!imbrex::element<float&> && !imbrex::element<float volatile>);
    std::array<double, 2> data{1, 2};
    static_assert(std::is_same_v<decltype(imbrex::as_storage(std::as_const(data).data())), double const*>);
    EXPECT_EQ(imbrex::as_storage(data.data()), data.data());
}

TEST(Dtype, NamesAreThoseOfTheStorageTypes) {
    EXPECT_EQ(imbrex::dtype_name<float>(), "f32");
    EXPECT_EQ(imbrex::dtype_name<double const>(), "f64");
    EXPECT_EQ(imbrex::dtype_name<f16>(), "f16");
    EXPECT_EQ(imbrex::dtype_name<bf16>(), "bf16");
    EXPECT_EQ(imbrex::dtype_name<imbrex::detail::native_f16>(), "f16");
}

TEST(Dtype, ScalarHelpersCoverAllFourTypes) {
    EXPECT_EQ(imbrex::to_float(0.5), 0.5f);
    EXPECT_EQ(imbrex::to_double(0.1f), static_cast<double>(0.1f));
    EXPECT_EQ(imbrex::round_to<float>(0.1), 0.1f);
    EXPECT_EQ(imbrex::round_to<double>(0.1f), static_cast<double>(0.1f));
    EXPECT_EQ(imbrex::round_to<f16>(0.1).bits, 0x2e66);
    EXPECT_EQ(imbrex::round_to<bf16>(0.1f).bits, 0x3dcd);
}

// Narrowing is asked for, widening is not; and expressions of the two stay unambiguous.
TEST(Dtype, OnlyExactConversionsAreImplicit) {
    static_assert(!std::is_convertible_v<float, f16> && !std::is_convertible_v<double, bf16>);
    static_assert(!std::is_convertible_v<int, f16> && !std::is_constructible_v<f16, int>);    // float or double: say which
    static_assert(std::is_convertible_v<f16, float> && std::is_convertible_v<bf16, double>);
    static_assert(!std::is_convertible_v<f16, bf16> && !std::is_convertible_v<bf16, f16>);
    static_assert(std::is_same_v<decltype(f16{} * f16{}), float> && std::is_same_v<decltype(bf16{} + 1.0), double>);
    EXPECT_EQ(f16(bf16(1.5f)).bits, f16(1.5f).bits);
    EXPECT_EQ(static_cast<int>(f16(3.0f)), 3);
    EXPECT_EQ(static_cast<double>(bf16::from_bits(1)), 0x1p-133);
}

template <class T>
constexpr bool is_plain_16_bit = sizeof(T) == 2 && alignof(T) == 2 && std::is_trivial_v<T> && std::is_standard_layout_v<T> &&
                                 std::is_same_v<decltype(T::bits), std::uint16_t>;

TEST(Dtype, StorageTypesArePlainSixteenBitsAndConstexpr) {
    static_assert(is_plain_16_bit<f16> && is_plain_16_bit<bf16>);
    static_assert(f16(1.0f).bits == 0x3c00 && bf16(1.0f).bits == 0x3f80 && f16{}.bits == 0);
    static_assert(f16(1 + 0x1p-11 + 0x1p-40).bits == 0x3c01 && f16(1 + 0x1p-11).bits == 0x3c00);
    static_assert(imbrex::to_float(f16::from_bits(1)) == 0x1p-24f && imbrex::to_double(bf16::from_bits(1)) == 0x1p-133);
    static_assert(imbrex::round_to<f16>(1e9).bits == 0x7c00);
    std::vector<f16> const elements(3, f16(2.0f));    // usable as a template argument without a warning
    std::span<f16 const> const all{elements};
    EXPECT_EQ(imbrex::to_float(all[2]), 2.0f);
}

}    // namespace
