// How the AMX unit keeps queries, keys and values: as operands of TDPBF16PS, whose A is 16 rows of 32 numbers and whose B is 16
// rows of 16 pairs.
//
//   scores   St[key][query] = K Qt    A: 32 numbers of 16 keys             B: pairs of numbers of 16 queries
//   outputs  Ot[d][query] += Vt Pt    A: 32 keys of 16 columns of V        B: pairs of keys of 16 queries
//
// Queries are packed once a row tile, keys and values once a kv head; what the softmax leaves is B as it is. Numbers of a row
// beyond head_dim, and keys beyond the last, are 0. A number is the sum of some of bf16, its limbs: of bf16 one, of f16 two,
// which is exact (8 of its 11 digits, and the rest); each limb has tiles of its own.
// Decision: keys are packed too, though A is rows as they lie: tiles of 1 KB in a row are 4 % faster than rows 256 bytes apart,
// copying them included (D=128, S=2048, Intel Emerald Rapids, g++ 13, 2026-12-01), and any rows will do.
#pragma once

#include "imbrex/simd/amx.hpp"
#include "imbrex/units/wide_layout.hpp"
#include "imbrex/workspace.hpp"

IMBREX_ISA_BEGIN

struct amx_geometry {
    static constexpr index max_rows = 32;    // queries whose scores are made together: two tiles of 16 columns
    static constexpr int max_parts = 4;      // so many times those take turns at a tile of keys
    static constexpr index block = 32;       // keys whose scores and weights are made together
    static constexpr index step = 32;        // numbers of a row that one product takes
    // Blocks whose weights meet their values together: 16 rather than 8 is 2 % (D=128, S=1024 and 2048), 32 as 8 (Intel Emerald
    // Rapids, g++ 13, 2026-12-01). Of weights of two limbs half as many.
    static constexpr int group = 16;
    static constexpr index tile = 16 * 32;            // bf16 in a tile
    static constexpr index square = 16 * max_rows;    // f32 of 16 rows of s or o

    static constexpr index padded(index head_dim) noexcept { return (head_dim + step - 1) / step * step; }
    static constexpr index key_block(index head_dim, int limbs) noexcept { return padded(head_dim) * block * limbs; }
    static constexpr index value_block(index head_dim_v, int limbs) noexcept { return padded(head_dim_v) * block * limbs; }
};

template <class E>
inline constexpr int amx_limbs = std::is_same_v<E, f16> ? 2 : 1;

// Blocks of keys and values from a key on that starts one.
struct amx_tile {
    bf16 const* keys = nullptr;      // [block][step][limb][32 keys][32 numbers]
    bf16 const* values = nullptr;    // [block][head_dim_v / 32][limb][32 columns][32 keys]
};

// Scratch of one worker. Pieces that are read beside others that are being written start at other offsets within 4 KB: a load
// waits for a store that agrees with it in the last 12 bits (20 % of the time; Intel Emerald Rapids, g++ 13, a prototype of this
// unit).
struct amx_scratch {
    // Of 32 rows.
    struct part {
        bf16* q;        // [limb][2 halves of the queries][padded(head_dim) / 32] tiles
        float* o;       // padded(head_dim_v) x max_rows
        float* base;    // max_rows: what rows are weighed by (amx_softmax.hpp); the others likewise
        float* top;
        float* limit;
        float* l;                      // sums of weights as they are multiplied
        float* l_exact;                // before they are rounded
        lane_int<float>* positions;    // the query and its head, of each row
        lane_int<float>* heads;
    };
    // Of whoever has the turn.
    struct shared {
        float* s[2];      // block x max_rows: the scores of this block, and of the next
        bf16* p;          // [group blocks][limb][2 halves] tiles: weights
        bf16* values;     // a block, where some of its keys are seen by no query
        float* m_next;    // max_rows: maxima of a block
        float* alpha;
    };
    shared all;
    part parts[amx_geometry::max_parts];

    // The one function that sizes and lays out the scratch; over a null arena it only counts.
    static amx_scratch lay_out(arena& memory, index head_dim, index head_dim_v, int limbs = 1) noexcept {
        using g = amx_geometry;
        amx_scratch x;
        for (float*& s : x.all.s) s = memory.take<float>(g::block * g::max_rows), memory.skip(320);
        x.all.p = memory.take<bf16>(g::group * g::block * g::max_rows);
        memory.skip(320);
        x.all.values = memory.take<bf16>(g::value_block(head_dim_v, limbs));
        for (float** a : {&x.all.m_next, &x.all.alpha}) *a = memory.take<float>(g::max_rows);
        for (part& one : x.parts) {
            one.q = memory.take<bf16>(g::max_rows * g::padded(head_dim) * limbs);
            memory.skip(192);
            one.o = memory.take<float>(g::padded(head_dim_v) * g::max_rows);
            memory.skip(192);
            for (float** a : {&one.base, &one.top, &one.limit, &one.l, &one.l_exact}) *a = memory.take<float>(g::max_rows);
            one.positions = memory.take<lane_int<float>>(g::max_rows);
            one.heads = memory.take<lane_int<float>>(g::max_rows);
        }
        return x;
    }
};

IMBREX_ISA_END
