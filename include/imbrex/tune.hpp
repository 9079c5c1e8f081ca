// The only table of tuned numbers. Each one tells the CPU, the compiler, the gain and the date of its measurement;
// bench/prefill --benchmark_filter=tiles is the tuner.
#pragma once

#include "imbrex/tile.hpp"

namespace imbrex {

struct tuned_tiles {
    static constexpr tile_shape select(tile_request const& r) noexcept {
        if (r.narrow) return {0, narrow_kv_cols(r)};
        return {r.max_q_rows, wide_kv_cols(r)};
    }

private:
    static constexpr index wide_kv_cols(tile_request const& r) noexcept { return r.head_dim <= 64 ? 64 : 128; }
    static constexpr index narrow_kv_cols(tile_request const& r) noexcept { return r.kv_element_bytes <= 2 ? 128 : 64; }
};

namespace tune {

// Query rows of one kv head up to which the narrow unit (lanes along head_dim) serves them.
inline constexpr index narrow_rows = 8;

// A kv head is copied once to contiguous scratch when at least this many row tiles read it from rows that lie apart.
inline constexpr index copy_from_row_tiles = 4;

}    // namespace tune

}    // namespace imbrex
