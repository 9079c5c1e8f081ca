// How the narrow unit reads rows: widened in registers, with the scales that change along a row. A scale that is the same all
// along a row is left out, to be applied to its score or weight.
#pragma once

#include "imbrex/rows.hpp"
#include "imbrex/simd/encoded.hpp"

IMBREX_ISA_BEGIN

// Where the scales of a row change: the same for all rows of a set.
template <class T>
struct scale_runs {
    enum class kind { whole_rows, whole_pairs, numbers, any };

    kind is = kind::whole_rows;
    index row = 0;    // numbers in it
    page_division group{};

    static scale_runs of(index group, index row) noexcept {
        constexpr index pair = 2 * lane_count<T>;
        kind const is = group >= row        ? kind::whole_rows
                        : group % pair == 0 ? kind::whole_pairs
                        : group == 1        ? kind::numbers
                                            : kind::any;
        return {is, row, page_division{group}};
    }
};

template <class T, class E>
IMBREX_NOINLINE void scale_pair_of_any(float const* scales, scale_runs<T> const& runs, index d, lanes<T>& low,
                                       lanes<T>& high) noexcept {
    alignas(64) array_of<T, 2 * lane_count<T>> each;
    for (int i = 0; i < 2 * lane_count<T>; ++i) each[row_pair_lane<T, E>(i)] = scales[runs.group.quotient(d + i)];
    low = low * lanes<T>::load_aligned(each), high = high * lanes<T>::load_aligned(each + lane_count<T>);
}

// As load_row_pair.
template <class T, class E>
IMBREX_ALWAYS_INLINE void load_scaled_pair(E const* row, float const* scales, scale_runs<T> const& runs, index d, lanes<T>& low,
                                           lanes<T>& high) noexcept {
    load_code_pair<T>(row, d, low, high);
    if (runs.is == scale_runs<T>::kind::whole_rows) return;
    if (runs.is == scale_runs<T>::kind::whole_pairs) {
        lanes<T> const scale(scales[runs.group.quotient(d)]);
        low = low * scale, high = high * scale;
    } else if (runs.is == scale_runs<T>::kind::numbers && !std::same_as<E, int4_pair>) {
        low = low * seam<T>::load(scales + d), high = high * seam<T>::load(scales + d + lane_count<T>);
    } else {
        scale_pair_of_any<T, E>(scales, runs, d, low, high);
    }
}

// As load_row_upto the row's end.
template <class T, class E>
IMBREX_ALWAYS_INLINE lanes<T> load_scaled_upto(E const* row, float const* scales, scale_runs<T> const& runs, index d) noexcept {
    lanes<T> const x = load_row_upto<T>(row, d, runs.row);
    if (runs.is == scale_runs<T>::kind::whole_rows) return x;
    return x * load_scales<T>({scales, runs.group.divisor()}, d, runs.row);
}

IMBREX_ISA_END
