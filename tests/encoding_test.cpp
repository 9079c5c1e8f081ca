// encoding.hpp's definitions: layouts bit for bit, and which number stands where in a row.
#include "imbrex/encoding.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <gtest/gtest.h>

namespace {

using imbrex::f16;
using imbrex::index;
using imbrex::int4_pair;
using imbrex::q4_0_block;
using imbrex::q8_0_block;
using imbrex::side_scales;

static_assert(offsetof(q8_0_block, d) == 0 && offsetof(q8_0_block, qs) == 2);
static_assert(offsetof(q4_0_block, d) == 0 && offsetof(q4_0_block, qs) == 2);
static_assert(imbrex::row_units<q8_0_block>(128) == 4 && imbrex::row_units<q4_0_block>(64) == 2);
static_assert(imbrex::row_units<int4_pair>(128) == 64 && imbrex::row_units<std::int8_t>(80) == 80);
static_assert(imbrex::row_units<imbrex::bf16>(80) == 80 && imbrex::row_units<float>(3) == 3);
static_assert(imbrex::kv_element<float> && imbrex::kv_element<imbrex::f8_e5m2> && imbrex::kv_element<int4_pair>);
static_assert(!imbrex::kv_element<std::uint8_t> && !imbrex::kv_element<int> && !imbrex::kv_element<float const>);

static_assert(std::is_same_v<imbrex::kv_storage_of<q8_0_block const>, q8_0_block>);
static_assert(std::is_same_v<imbrex::kv_storage_of<imbrex::detail::native_f16>, f16>);
static_assert(std::is_same_v<imbrex::kv_storage_of<std::int8_t const>, std::int8_t>);

TEST(Encoding, AQ8BlockIsAScaleAndThirtyTwoWholeNumbers) {
    std::array<unsigned char, 68> bytes{};    // two blocks, as ggml writes them; the second with d = 0.5
    bytes[34] = 0x00, bytes[35] = 0x38;
    for (unsigned i = 0; i < 32; ++i) bytes[36 + i] = static_cast<unsigned char>(100 - 7 * i);
    auto const* const row = reinterpret_cast<q8_0_block const*>(bytes.data());
    for (int i = 0; i < 32; ++i) {
        int const expected = 100 - 7 * i;    // down to -117
        EXPECT_EQ(imbrex::value_at(row, 32 + i), 0.5f * static_cast<float>(expected)) << i;
        EXPECT_EQ(imbrex::value_at(row, i), 0.f);
    }
}

TEST(Encoding, AQ4BlockKeepsItsFirstHalfInTheLowNibbles) {
    std::array<unsigned char, 36> bytes{};
    bytes[18] = 0x00, bytes[19] = 0xc0;    // d = -2 of the second block
    for (unsigned i = 0; i < 16; ++i) bytes[20 + i] = static_cast<unsigned char>(i | (15 - i) << 4);
    auto const* const row = reinterpret_cast<q4_0_block const*>(bytes.data());
    for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(imbrex::value_at(row, 32 + i), -2.f * static_cast<float>(i - 8)) << i;
        EXPECT_EQ(imbrex::value_at(row, 48 + i), -2.f * static_cast<float>(7 - i)) << i;
    }
}

TEST(Encoding, Int4NeighboursShareAByteTheFirstInItsLowNibble) {
    std::array<int4_pair, 4> const row{{{0x80}, {0x7f}, {0xa9}, {0x08}}};
    std::array<float, 2> const scales{0.25f, -3.f};
    std::array<int, 8> const codes{-8, 0, 7, -1, 1, 2, 0, -8};
    for (index d = 0; d < 8; ++d) {
        float const expected = static_cast<float>(codes[static_cast<std::size_t>(d)]) * (d < 4 ? 0.25f : -3.f);
        EXPECT_EQ(imbrex::value_at(row.data(), side_scales{scales.data(), 4}, d), expected) << d;
    }
}

TEST(Encoding, SideScalesServeTheRowAGroupOrAChannel) {
    std::array<std::int8_t, 6> const row{-128, 127, 1, -1, 0, 3};
    std::array<float, 6> const scales{1.f, 2.f, 4.f, 8.f, 16.f, 32.f};
    for (index group : {1, 2, 3, 6}) {
        for (index d = 0; d < 6; ++d) {
            float const expected = std::ldexp(static_cast<float>(row[static_cast<std::size_t>(d)]), static_cast<int>(d / group));
            EXPECT_EQ(imbrex::value_at(row.data(), side_scales{scales.data(), group}, d), expected) << d << " of group " << group;
        }
    }
}

TEST(Encoding, EveryEncodingHasAName) {
    EXPECT_EQ(imbrex::encoding_name<float>(), "f32");
    EXPECT_EQ(imbrex::encoding_name<imbrex::f8_e4m3>(), "f8_e4m3");
    EXPECT_EQ(imbrex::encoding_name<imbrex::f8_e5m2>(), "f8_e5m2");
    EXPECT_EQ(imbrex::encoding_name<std::int8_t>(), "int8");
    EXPECT_EQ(imbrex::encoding_name<int4_pair>(), "int4");
    EXPECT_EQ(imbrex::encoding_name<q8_0_block>(), "q8_0");
    EXPECT_EQ(imbrex::encoding_name<q4_0_block>(), "q4_0");
}

}    // namespace
