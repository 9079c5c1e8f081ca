// The only table of tuned numbers. Each one tells the CPU, the compiler, the gain and the date of its measurement.
#pragma once

#include "imbrex/tile.hpp"

namespace imbrex {

struct tuned_tiles {
    static constexpr tile_shape select(tile_request const& r) noexcept {
        if (r.narrow) return {0, narrow_kv_cols};
        return {r.max_q_rows, wide_kv_cols(r)};
    }

private:
    // The scores of a tile stay in L1 beside the queries' rows in use (64 x 128 f32 are 32 KB).
    // bench/imbrex_prefill --benchmark_filter=tiles is the tuner.
    static constexpr index wide_kv_cols(tile_request const& r) noexcept { return r.head_dim <= 64 ? 64 : 128; }

    // Decode streams K of a tile, then V: each change of stream costs the hardware's prefetchers a start. 64 / 256 / 512 / 1024
    // keys reach 54 / 71 / 77 / 82 % of the read bandwidth (f32, 32/8 heads, D=128, huge pages; bf16 47 / 53 / 56 / 58 %; on
    // 4 KB pages bf16 60 / 67 / 71 / 75 %). AMD Zen 4 (EPYC, 1 core), g++ 12 -O3 -march=native, 2026-11-30.
    static constexpr index narrow_kv_cols = 1024;
};

namespace tune {

// Query rows of one kv head up to which the narrow unit (lanes along head_dim) serves them: beyond, a vector of queries is
// at least half full, and one broadcast FMA serves it.
inline constexpr index narrow_rows = 8;

// A kv head is copied once to contiguous scratch when at least this many row tiles read it from rows that lie apart: 32 heads
// BSHD, D=128, S=1024: 76-86 -> 84-92 % of the FMA peak. AMD Zen 4, g++ 12 (a prototype of this kernel).
inline constexpr index copy_from_row_tiles = 4;

}    // namespace tune

}    // namespace imbrex
