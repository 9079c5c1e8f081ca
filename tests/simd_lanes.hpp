// What the tests of simd.hpp share: lanes as a vector of numbers, and numbers compared bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "imbrex/simd.hpp"

namespace imbrex_test {

using imbrex::array_of;
using imbrex::lane_count;
using imbrex::lane_int;
using imbrex::lanes;
using imbrex::seam;

template <class T>
std::vector<T> lanes_of(lanes<T> x) {
    std::vector<T> values(static_cast<std::size_t>(lane_count<T>));
    x.store_unaligned(values.data());
    return values;
}

template <class T>
bool same_bits(T a, T b) {
    if constexpr (sizeof(T) == 8)
        return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    else if constexpr (sizeof(T) == 4)
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    else
        return std::bit_cast<std::uint16_t>(a) == std::bit_cast<std::uint16_t>(b);
}

// The same number, or both NaN.
template <class T>
bool same(T a, T b) {
    return (std::isnan(a) && std::isnan(b)) || same_bits(a, b);
}

// Of a typed suite: f32, f64, bf16, f16.
struct type_names {
    template <class T>
    static std::string GetName(int) {
        return std::string{imbrex::dtype_name<T>()};
    }
};

}    // namespace imbrex_test
