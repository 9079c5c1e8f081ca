// Writers of one row: n floats, encoded. encoding.hpp says what the result means.
//
//   f32 f16 bf16 f8   each number rounded to nearest (f8 saturates at its largest)
//   q8_0, q4_0        bit for bit what ggml's quantize_row_q8_0_ref and quantize_row_q4_0_ref write (ggml-quants.c); n % 32 == 0
//   int8              a group's scale is its largest magnitude / 127, or the caller's; |error| <= scale / 2, ties away from 0
//   int4              the same with 7; n and the group are even
//
// What has no finite code: a group (or block) that holds a NaN or an infinity is NaN throughout, since its scale is. With
// scales of the caller's, infinities become the largest code and NaNs 0. A group whose scale is too small to be inverted
// (magnitudes below about 1e-36), or to be stored (q8_0, q4_0: f16 rounds it to 0), is read as zeros.
#pragma once

#include "imbrex/simd/encoded.hpp"

IMBREX_ISA_BEGIN

namespace encoding_steps {

inline constexpr std::uint32_t infinity_bits = 0x7f800000u;

// The bits of the largest magnitude; infinity_bits or more if there is a NaN or an infinity. As integers, magnitudes keep their
// order.
inline std::uint32_t largest_magnitude(float const* x, index n) noexcept {
    std::uint32_t largest = 0;
    for (index i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
    return largest;
}

// A scale, and by what to multiply numbers to get codes: 0 where the scale has no inverse.
struct code_scale {
    float scale;
    float inverse;

    static code_scale of(float scale) noexcept {
        float const inverse = scale == 0 ? 0.f : 1.f / scale;
        bool const usable = std::bit_cast<std::uint32_t>(inverse) << 1 < infinity_bits << 1;
        return {scale, usable ? inverse : 0.f};
    }
};

// x held within +-limit; NaN as 0.
inline lanes<float> held(lanes<float> x, float limit) noexcept {
    using V = lanes<float>;
    x = xsimd::select(x == x, x, V(0.f));
    return seam<float>::at_least(V(-limit), seam<float>::at_most(V(limit), x));
}

// Whole numbers within +-limit at codes[0 ... min(W, n)): x rounded half away from 0, NaN as 0. Added is the number below 1/2:
// 0.49999997 + 0.5 would be 1.
inline void store_rounded(lanes<float> x, float limit, std::int8_t* codes, index n) noexcept {
    constexpr index W = lane_count<float>;
    x = held(x, limit);
    alignas(64) array_of<float, lane_count<float>> away;
    (x + xsimd::copysign(lanes<float>(0x1.fffffep-2f), x)).store_aligned(away);
    for (index i = 0; i < std::min(W, n); ++i) codes[i] = static_cast<std::int8_t>(away[i]);
}

// The product is rounded before anything is added to it (opaque: no FMA), as the references of the block formats do.
inline lanes<float> product_of(float const* x, index d, index n, lanes<float> factor) noexcept {
    return opaque<float>(load_row_upto<float>(x, d, n) * factor);
}

inline void store_codes(float const* x, index n, float inverse, float limit, std::int8_t* codes) noexcept {
    for (index d = 0; d < n; d += lane_count<float>)
        store_rounded(product_of(x, d, n, lanes<float>(inverse)), limit, codes + d, n - d);
}

// One group, with a scale of its own.
inline float encode_group(float const* x, index n, float limit, std::int8_t* codes) noexcept {
    std::uint32_t const largest = largest_magnitude(x, n);
    if (largest >= infinity_bits) {
        std::fill_n(codes, n, std::int8_t{0});
        return std::numeric_limits<float>::quiet_NaN();
    }
    code_scale const s = code_scale::of(std::bit_cast<float>(largest) / limit);
    store_codes(x, n, s.inverse, limit, codes);
    return s.inverse == 0 ? 0.f : s.scale;
}

inline void store_pairs(std::int8_t const* codes, index n, int4_pair* row) noexcept {
    for (index i = 0; i < n / 2; ++i) {
        auto const low = static_cast<unsigned>(codes[2 * i] + 8), high = static_cast<unsigned>(codes[2 * i + 1] + 8);
        row[i].bits = static_cast<std::uint8_t>(low | high << 4);
    }
}

inline void encode_block(float const* x, q8_0_block& b) noexcept { b.d = f16(encode_group(x, ggml_block, 127.f, b.qs)); }

// The scale has the sign that makes the number of largest magnitude (the first of them) -8, the code that has no opposite.
inline void encode_block(float const* x, q4_0_block& b) noexcept {
    std::uint32_t const largest = largest_magnitude(x, ggml_block);
    bool const finite = largest < infinity_bits;
    index first = 0;
    while (finite && (std::bit_cast<std::uint32_t>(x[first]) & 0x7fffffffu) != largest) ++first;
    code_scale const s = code_scale::of((finite && largest != 0 ? x[first] : 0.f) / -8.f);
    alignas(64) float from_zero[ggml_block];    // codes and the half that rounding cuts off
    for (index d = 0; d < ggml_block; d += lane_count<float>) {
        lanes<float> const product = product_of(x, d, ggml_block, lanes<float>(s.inverse));
        (held(product, 8.25f) + lanes<float>(8.5f)).store_aligned(from_zero + d);
    }
    for (index i = 0; i < ggml_block / 2; ++i) {
        int const low = static_cast<int>(from_zero[i]), high = static_cast<int>(from_zero[i + ggml_block / 2]);
        b.qs[i] = static_cast<std::uint8_t>(std::min(low, 15) | std::min(high, 15) << 4);
    }
    b.d = f16(finite ? s.scale : std::numeric_limits<float>::quiet_NaN());
}

}    // namespace encoding_steps

template <kv_element E>
    requires(!side_scaled<E>)
inline void encode_row(float const* x, index n, E* row) noexcept {
    if constexpr (block_encoded<E>) {
        IMBREX_ASSERT(n % ggml_block == 0);
        for (index d = 0; d < n; d += ggml_block) encoding_steps::encode_block(x + d, row[d / ggml_block]);
    } else if constexpr (byte_element<E>) {
        for (index d = 0; d < n; ++d) row[d] = E(x[d]);
    } else {
        constexpr index W = lane_count<float>;
        index d = 0;
        for (; d + W <= n; d += W) seam<float>::store(row + d, seam<float>::load(x + d));
        if (d < n) seam<float>::store_first(row + d, load_row_upto<float>(x, d, n), static_cast<int>(n - d));
    }
}

// With scales of the row's own, one for each `group` numbers (a divisor of n, or n and more for the whole row), written to
// scales[0 ... n / group).
template <side_scaled E>
inline void encode_row(float const* x, index n, E* row, float* scales, index group) noexcept {
    index const step = std::min(group, n);
    for (index d = 0; d < n; d += step, ++scales) {
        if constexpr (std::same_as<E, std::int8_t>) {
            *scales = encoding_steps::encode_group(x + d, std::min(step, n - d), 127.f, row + d);
        } else {
            IMBREX_ASSERT(step % 2 == 0 && n - d <= max_head_dim);
            std::int8_t codes[max_head_dim];
            *scales = encoding_steps::encode_group(x + d, step, 7.f, codes);
            encoding_steps::store_pairs(codes, step, row + d / 2);
        }
    }
}

// With scales of the caller's, e.g. one for each channel, measured beforehand. Numbers beyond the largest code are held at it.
template <side_scaled E>
inline void encode_row(float const* x, index n, E* row, side_scales given) noexcept {
    constexpr index W = lane_count<float>;
    std::int8_t codes[max_head_dim];
    for (index d = 0; d < n; d += W) {
        lanes<float> const quotient = load_row_upto<float>(x, d, n) / load_scales<float>(given, d, n);
        encoding_steps::store_rounded(quotient, std::same_as<E, int4_pair> ? 7.f : 127.f, codes + d, n - d);
    }
    if constexpr (std::same_as<E, int4_pair>)
        encoding_steps::store_pairs(codes, n, row);
    else
        std::copy_n(codes, n, row);
}

IMBREX_ISA_END
