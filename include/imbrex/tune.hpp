// The only table of tuned numbers. Each one tells the CPU, the compiler, the gain and the date of its measurement.
#pragma once

#include "imbrex/tile.hpp"

namespace imbrex {

struct tuned_tiles {
    static constexpr tile_shape select(tile_request const& r) noexcept {
        if (r.narrow) return {0, r.kv_element_bytes <= 2 ? 2 * narrow_kv_cols : narrow_kv_cols};
        if (r.wide == wide_kind::amx_tiles || r.wide == wide_kind::amx_limb_tiles) return {r.max_q_rows, amx_kv_cols};
        return {r.max_q_rows, wide_kv_cols(r)};
    }

private:
    // bench/prefill --benchmark_filter=^tiles is the tuner. f32, S=1024, full / causal, % of the FMA peak:
    // 64 x 64 keys 87.8 / 85.3, 128 91.0 / 88.3 (D=64); 64 x 128 91.7 / 88.0, 256 93.0 / 90.5 (D=128); on AVX2 (clang++ 14)
    // 24 x 64 83.9 / 80.9, 256 86.3 / 82.5 (D=64); 24 x 128 88.7 / 85.2, 256 89.7 / 85.0 (D=128).
    // AMD Zen 4 (EPYC), g++ 12 -O3 -march=native unless said, 2026-11-30.
    // Keys and values that are widened into scratch take 256 x (D + Dv) x 4 bytes, so large heads of them take half as many.
    // bf16 in pairs, S=1024 and 2048: 128 keys 72-82 / 70-80 (D=64), 87-88 / 83-84 (D=128); 256 keys 83-84 / 79-81, 89 / 85-86;
    // % of the peak of VDPBF16PS, 2026-12-01.
    static constexpr index wide_kv_cols(tile_request const& r) noexcept {
        if (r.wide == wide_kind::bf16_pairs) return 256;
        bool const widened = r.kv_element_bytes < 4;
        if (r.head_dim <= 64 && r.lanes >= 16) return 128;
        return widened && r.head_dim + r.head_dim_v > 256 ? 128 : 256;
    }

    // Its first step of a tile runs alone, the outputs of 16 blocks of 32 keys follow together, and its rows find a tile that
    // fits half of L2 there. bf16, D=128, 128 rows, of 256 / 512 / 1024 keys: one thread, S=1024 837 / 868 / 861 GFLOP/s, S=2048
    // 931 / 943 / 950; 16 threads, B=1 H=8 S=4096 6439 / 6647 / 6553, B=4 H=32 S=2048 6825 / 6749 / 6695. Intel Emerald Rapids
    // (16 virtual cores), g++ 13 -O3 -march=sapphirerapids, medians, 2026-12-01.
    static constexpr index amx_kv_cols = 512;

    // Decode streams K of a tile, then V: each change of stream costs the hardware's prefetchers a start. 64 / 256 / 512 / 1024
    // keys reach 54 / 71 / 77 / 82 % of the read bandwidth (f32, 32/8 heads, D=128, huge pages; bf16 47 / 53 / 56 / 58 %; on
    // 4 KB pages bf16 60 / 67 / 71 / 75 %). AMD Zen 4 (EPYC, 1 core), g++ 12 -O3 -march=native, 2026-11-30. bf16 in pairs, 1024 /
    // 2048 / 4096 keys: 70 / 79 / 80 %, on 4 KB pages 66 / 72 / 72 %; f32 86 / 83 / 90 and 77 / 77 / 79 % (2026-12-01).
    static constexpr index narrow_kv_cols = 1024;
};

namespace tune {

// Query rows of one kv head up to which the narrow unit (lanes along head_dim) serves them: beyond, a vector of queries is
// at least half full, and one broadcast FMA serves it.
inline constexpr index narrow_rows = 8;

// A kv head is copied once to contiguous scratch when at least this many row tiles read it from rows that lie apart: 32 heads
// BSHD, D=128, S=1024: 76-86 -> 84-92 % of the FMA peak. AMD Zen 4, g++ 12 (a prototype of this kernel).
inline constexpr index copy_from_row_tiles = 4;

// Work items of a call below which a unit that could take more rows an item takes fewer.
inline constexpr index work_items = 64;

// A worker takes row tiles of a head together as long as so many times as many are left for each: bf16, 16 threads, of 1 / 2 / no
// runs, ms: B=4 H=32 D=128 S=1024 11.0 / 11.3 / 14.2, S=2048 36.6 / 38.1 / 49.0; B=1 H=8 S=4096 11.5 / 10.4 / 10.6 (Intel Emerald
// Rapids, g++ 13 -O3 -march=sapphirerapids, medians, 2026-12-01).
inline constexpr index runs_per_worker = 2;

// Where a unit reads keys or values that have been packed for it, they are packed once when so many row tiles read them, else a
// tile at a time.
inline constexpr index pack_from_row_tiles = 2;

// Values of bf16 are put in pairs once per call, not a tile at a time, when at least this many row tiles read them: D=64 S=1024
// 71 -> 75 %, D=128 81 -> 86 %, D=256 85 -> 88 % of the peak of VDPBF16PS (tiles of 128 keys; AMD Zen 4, g++ 12, 2026-12-01).
inline constexpr index pair_from_row_tiles = 4;

// Copied kv heads of one wave, all workers together; one head is always copied, however long.
inline constexpr index copy_budget_bytes = index{64} << 20;

// Packed kv heads of one wave, for each of many workers, within that budget: workers wait for each other twice a wave. AMX, bf16,
// 16 threads, B=4 H=32, GFLOP/s with 1 and 4: D=128 S=1024 3416 and 4245, S=2048 5276 and 5937, D=64 S=1024 2902 and 3915 (Intel
// Emerald Rapids, g++ 13 -O3 -march=sapphirerapids, medians of 7, 2026-12-01).
inline constexpr index packed_heads_per_worker = 4;

// Split-KV: bytes of keys and values of a part, at least: a tenth of a millisecond of reading, so that neither taking a part nor
// merging its state shows (f32, 4/1 heads, 128k keys, one thread: unsplit 5.54, 2 MB 5.44, 4 MB 5.49 ms, which is the same; AMD
// Zen 4, g++ 12, 2026-11-30), and heads of 2048 keys of 1 KB stay whole.
inline constexpr index part_bytes = index{2} << 20;

// Keys of a part where workers decide, at least: shorter tiles stream worse (see narrow_kv_cols).
inline constexpr index shared_keys = 256;

// Parts for each worker there, so that unequal sequences balance.
inline constexpr index shares_per_worker = 2;

// kv heads that lie side by side and are read together, at most, and bytes of their units' scratch, of one worker. All 8 heads
// together, against one at a time, % of a dense cache: pages of 16 tokens 60-69 -> 80-100, of one token 48 -> 63-85, BSHD 55 ->
// 64-82 (f32, 32/8 heads, D=128, huge and 4 KB pages; AMD Zen 4, g++ 12, 2026-12-01).
inline constexpr index heads_together = 16;
inline constexpr index heads_together_bytes = index{512} << 10;

// Items for each worker that heads read together leave, so that unequal ones balance.
inline constexpr index items_per_worker = 4;

// Parts of one kv head, at most: beyond, parts grow with the sequence.
inline constexpr index most_parts = 64;

// Of one wave, for each worker: at its end workers wait for each other, no longer than one part takes.
inline constexpr index parts_per_worker = 32;

}    // namespace tune

}    // namespace imbrex
