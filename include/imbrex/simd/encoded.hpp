// Rows of any encoding as vectors: one set of names for elements, blocks and packed pairs, so that a unit is written once.
//
//   load_row(row, d), load_row_upto(row, d, n)   numbers [d, d + W) of a row, in order; of the last, those below n, else 0
//   load_row_pair(row, d, low, high)             numbers [d, d + 2 W): number d + i is lane row_pair_lane<T, E>(i) of the two
//   load_codes, load_code_pair                   the same with no scale applied; for int8 and int4 that is all there is
//   block_scale(row, d)                          what codes of q8_0 and q4_0 at d are to be multiplied by, in every lane
//   widen_row(row, n, to), (row, scales, n, to)  a whole row
//
// d is a multiple of what is loaded (W or 2 W), at most 32. encoding.hpp defines the numbers; these are they, bit for bit, but
// that a NaN may be another NaN.
#pragma once

#include <algorithm>

#include "imbrex/encoding.hpp"
#include "imbrex/rows.hpp"
#include "imbrex/simd.hpp"
#include "imbrex/simd/blocks_portable.hpp"

#if defined(IMBREX_HAS_AVX512)
#include "imbrex/simd/blocks_avx512.hpp"
#elif defined(IMBREX_HAS_AVX2_FMA) && defined(__F16C__)
#include "imbrex/simd/blocks_avx2.hpp"
#endif

IMBREX_ISA_BEGIN

#if defined(IMBREX_HAS_AVX512)
using block_seam = avx512_blocks;
#elif defined(IMBREX_HAS_AVX2_FMA) && defined(__F16C__)
using block_seam = avx2_blocks;
#else
using block_seam = portable_blocks;
#endif

// Stored in pieces of more than one number, of which seam<T> knows nothing.
template <class E>
concept in_pieces = block_encoded<E> || std::same_as<E, int4_pair>;

template <class T, class E>
IMBREX_ALWAYS_INLINE lanes<T> load_codes(E const* row, index d) noexcept {
    if constexpr (in_pieces<E>)
        return block_seam::codes(row, d);
    else
        return seam<T>::load(row + d);
}

template <class T, class E>
IMBREX_ALWAYS_INLINE void load_code_pair(E const* row, index d, lanes<T>& low, lanes<T>& high) noexcept {
    if constexpr (in_pieces<E>)
        block_seam::code_pair(row, d, low, high);
    else
        seam<T>::load_pair(row + d, low, high);
}

template <class T, block_encoded E>
IMBREX_ALWAYS_INLINE lanes<T> block_scale(E const* row, index d) noexcept {
    return block_seam::scale(row[d / ggml_block].d);
}

template <class T, class E>
IMBREX_ALWAYS_INLINE lanes<T> load_row(E const* row, index d) noexcept {
    if constexpr (block_encoded<E>)
        return block_seam::codes(row, d) * block_scale<T>(row, d);
    else
        return load_codes<T>(row, d);
}

template <class T, class E>
IMBREX_ALWAYS_INLINE lanes<T> load_row_upto(E const* row, index d, index n) noexcept {
    if constexpr (in_pieces<E>) {
        IMBREX_ASSERT(d + lane_count<T> <= n);    // rows of pieces are whole groups
        return load_row<T>(row, d);
    } else {
        return n - d >= lane_count<T> ? seam<T>::load(row + d) : seam<T>::load_first(row + d, static_cast<int>(n - d));
    }
}

template <class T, class E>
IMBREX_ALWAYS_INLINE void load_row_pair(E const* row, index d, lanes<T>& low, lanes<T>& high) noexcept {
    if constexpr (block_encoded<E>)
        block_seam::pair(row, d, low, high);
    else
        load_code_pair<T>(row, d, low, high);
}

template <class T, class E>
constexpr int row_pair_lane(int i) noexcept {
    if constexpr (block_encoded<E>)
        return i;
    else if constexpr (std::same_as<E, int4_pair>)
        return i % 2 * lane_count<T> + i / 2;    // low nibbles, then high ones
    else
        return seam<T>::template pair_lane<E>(i);
}

// to[0 ... n) = the row's numbers; unscaled ones of int8 and int4.
template <class T, class E>
IMBREX_ALWAYS_INLINE void widen_row(E const* row, index n, T* to) noexcept {
    constexpr index W = lane_count<T>;
    index d = 0;
    if constexpr (block_encoded<E> || byte_element<E>) {    // their pairs are in order
        for (; d + 2 * W <= n; d += 2 * W) {
            lanes<T> low, high;
            load_row_pair<T>(row, d, low, high);
            low.store_unaligned(to + d), high.store_unaligned(to + d + W);
        }
    }
    for (; d + W <= n; d += W) load_row<T>(row, d).store_unaligned(to + d);
    if (d < n) seam<T>::store_first(to + d, load_row_upto<T>(row, d, n), static_cast<int>(n - d));
}

// The scales of numbers [d, d + W), of which those at n and beyond are not there.
template <class T>
IMBREX_ALWAYS_INLINE lanes<T> load_scales(side_scales scales, index d, index n) noexcept {
    constexpr index W = lane_count<T>;
    if (scales.group == 1) return load_row_upto<T>(scales.data, d, n);
    alignas(64) array_of<T, lane_count<T>> each = {};
    for (index i = 0; i < std::min(W, n - d); ++i) each[i] = scales.of(d + i);
    return lanes<T>::load_aligned(each);
}

// to[0 ... n) = the row's numbers, scaled.
template <class T, side_scaled E>
IMBREX_ALWAYS_INLINE void widen_row(E const* row, side_scales scales, index n, T* to) noexcept {
    constexpr index W = lane_count<T>;
    if (n % W == 0 && (scales.group % W == 0 || scales.group >= n)) {    // no division: a scale for each run of vectors
        for (index first = 0; first < n; first += scales.group, ++scales.data) {
            lanes<T> const scale(*scales.data);
            index const last = std::min(first + scales.group, n);
            for (index d = first; d < last; d += W) (load_codes<T>(row, d) * scale).store_unaligned(to + d);
        }
        return;
    }
    index d = 0;
    for (; d + W <= n; d += W) (load_codes<T>(row, d) * load_scales<T>(scales, d, n)).store_unaligned(to + d);
    if (d < n) {
        lanes<T> const x = load_row_upto<T>(row, d, n) * load_scales<T>(scales, d, n);
        seam<T>::store_first(to + d, x, static_cast<int>(n - d));
    }
}

// Asks for rows [first, first + n) of so many numbers each; for none where n is negative.
template <row_set Rows>
void prefetch_rows(Rows const& rows, index first, index n, index numbers) noexcept {
    using E = typename Rows::element;
    constexpr index line = static_cast<index>(64 / sizeof(E));
    for (index j = first; j < first + n; ++j) {
        E const* const row = rows.row(j);
        for (index d = 0; d < row_units<E>(numbers); d += line) prefetch(row + d);
    }
    asm volatile("");    // g++ takes a function that only prefetches for one without effect, and leaves out its calls
}

IMBREX_ISA_END
