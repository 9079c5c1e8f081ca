// What the integer units keep in scratch, and the shuffles that they share.
//
// Queries and weights are integers relative to the row's largest, of one byte or of two, v = 256 high + low, so that bytes of
// keys and values are multiplied as they lie: VPDPBUSD adds four products of an unsigned and a signed byte to each of 16 lanes.
// Sums of products are exact; each becomes f32 once.
#pragma once

#include <algorithm>

#include "imbrex/simd/quads_avx512.hpp"
#include "imbrex/units/unit.hpp"
#include "imbrex/workspace.hpp"

namespace imbrex {

// What queries and weights are rounded to: 16 bits (3e-5 of the largest output), or, as an explicit policy, 8 (1e-2).
enum class integer_width { one_byte = 1, two_bytes = 2 };

}    // namespace imbrex

#if defined(IMBREX_HAS_AVX512) && defined(__AVX512VNNI__)
#define IMBREX_HAS_INTEGER_UNITS 1

IMBREX_ISA_BEGIN

// R = 1, 2 or 4 rows are taken at a time, a row group; up to eight rows by fours are two. In a vector of scores or weights the
// rows of a group alternate.
template <int R, integer_width Width>
struct integer_geometry {
    static constexpr int W = 16;
    static constexpr index chunk = 64;                       // bytes of a vector
    static constexpr int parts = static_cast<int>(Width);    // high bytes, low bytes
    static constexpr int at_once = R;
    // Row groups at hand: of fewer rows one.
    template <class Scratch>
    static constexpr int groups(Scratch const& x) noexcept {
        return at_once == 4 ? x.groups : 1;
    }
    static constexpr int block = W / at_once;    // keys whose scores fill one vector
    static constexpr float most_query = parts == 2 ? 127 * 256 + 127 : 127;
    static constexpr float most_weight = parts == 2 ? 65535 : 255;
};

struct integer_scratch {
    static constexpr index W = 16;
    static constexpr index chunk = 64;

    // Keys whose weights share a unit and whose values are interleaved at once, to be read again from L1. With 64 the figures of
    // 4 KB pages fall (1.45 -> 1.30 times bf16; D=128, 4 rows, AMD Zen 4, g++ 12, 2026-11-30).
    static constexpr index value_keys = 32;

    int groups = 1;    // of rows, that the call at hand has

    std::int8_t* q;           // [row group][16 columns][part][row of the group][4 x the same 16]; zeros beyond head_dim
    std::int32_t* q_start;    // [row group][part][row of the group][W]: -128 times the sum of a lane's bytes of q
    float* group_start;       // [row group][chunk][row of the group][W]: likewise, of a group and both bytes (group_scores)
    float* q_unit;            // row groups x W: what 1 in a query is worth; likewise m ... alpha
    float* m;
    float* m_next;
    std::int32_t* positions;
    std::int32_t* heads;
    float* alpha;         // by how much l and o must shrink
    float* l;             // the sum of weights, part one: in units of weights
    float* l_rest;        // part two (value_weights): its lanes have yet to be added
    float* s;             // [row group][key][row of the group]: scores, then weights times scales of values
    float* s_most;        // [row group][value_keys at a time][W]: the largest of their size
    float* key_scales;    // kv_cols and a vector; value_scales, value_shares likewise
    float* value_scales;
    float* value_shares;
    float* o;                    // [row][padded head_dim_v], the columns of a chunk in the order of interleaved ones
    float* group_sums;           // [row group][chunk of columns][3][W]: see group_values
    std::uint8_t* weights;       // of value_keys keys and a row group
    std::int8_t* interleaved;    // [chunk][value_keys / 4][4][64]: the bytes of 4 keys side by side

    static constexpr index padded(index n) noexcept { return (n + chunk - 1) / chunk * chunk; }
    static constexpr index four_vectors(index n) noexcept { return (n + 4 * W - 1) / (4 * W) * (4 * W); }

    // The one function that sizes and lays out the scratch; over a null arena it only counts.
    static integer_scratch lay_out(arena& memory, index rows, index head_dim, index head_dim_v, index kv_cols) noexcept {
        integer_scratch x;
        index const keys = four_vectors(kv_cols) + W;
        x.q = memory.take<std::int8_t>(2 * 4 * rows * padded(head_dim));
        x.q_start = memory.take<std::int32_t>(2 * rows * W);
        x.group_start = memory.take<float>(std::max<index>(rows, 4) * ((head_dim + 127) / 128) * W);
        for (auto* const p : {&x.q_unit, &x.m, &x.m_next, &x.alpha, &x.l, &x.l_rest}) *p = memory.take<float>(rows * W);
        for (auto* const p : {&x.positions, &x.heads}) *p = memory.take<std::int32_t>(rows * W);
        x.s = memory.take<float>(rows * keys);
        x.s_most = memory.take<float>(rows * four_vectors(kv_cols) / value_keys * W);
        for (auto* const p : {&x.key_scales, &x.value_scales, &x.value_shares}) *p = memory.take<float>(keys);
        x.o = memory.take<float>(rows * padded(head_dim_v));
        x.group_sums = memory.take<float>((rows + 3) / 4 * ((head_dim_v + 127) / 128) * 3 * W);
        x.weights = memory.take<std::uint8_t>(value_keys / 2 * chunk);
        x.interleaved = memory.take<std::int8_t>(value_keys * padded(head_dim_v));
        return x;
    }
};

// See seam_avx512.hpp on such masks.
inline constexpr __mmask32 all_words = 0xffffffff;
inline constexpr __mmask64 all_bytes = ~__mmask64{0};

// (As an argument of array_of, __m512i would lose attributes, which g++ warns of.)
template <int N>
using byte_vectors = __m512i[static_cast<std::size_t>(N)];
template <int N>
using fours_of_vectors = __m512i[static_cast<std::size_t>(N)][4];

// sum += 4 products of unsigned and signed bytes, in each of 16 lanes. Decision: assembly, since g++ 12 surrounds the intrinsic
// with two moves where sums live across a loop (scores and values take 15.5 instead of 11.5 ns a key; D=128, 4 rows, from L2, AMD
// Zen 4, 2026-11-30).
IMBREX_ALWAYS_INLINE void add_products(__m512i& sum, __m512i unsigned_bytes, __m512i signed_bytes) noexcept {
    __m512i t = sum;
    asm("vpdpbusd %2, %1, %0" : "+v"(t) : "v"(unsigned_bytes), "v"(signed_bytes));
    sum = t;
}

// Rows of 64 bytes of four keys become bytes of the four side by side: lanes 4 L .. 4 L + 3 of x[i] are columns 16 L + 4 i and
// on.
IMBREX_ALWAYS_INLINE void interleave_keys(__m512i (&x)[4]) noexcept {
    __m512i const low01 = _mm512_maskz_unpacklo_epi8(all_bytes, x[0], x[1]),
                  high01 = _mm512_maskz_unpackhi_epi8(all_bytes, x[0], x[1]);
    __m512i const low23 = _mm512_maskz_unpacklo_epi8(all_bytes, x[2], x[3]),
                  high23 = _mm512_maskz_unpackhi_epi8(all_bytes, x[2], x[3]);
    x[0] = _mm512_maskz_unpacklo_epi16(all_words, low01, low23);
    x[1] = _mm512_maskz_unpackhi_epi16(all_words, low01, low23);
    x[2] = _mm512_maskz_unpacklo_epi16(all_words, high01, high23);
    x[3] = _mm512_maskz_unpackhi_epi16(all_words, high01, high23);
}

// A mask of the first n bytes of a vector, at most all. Masked loads read nothing beyond it.
IMBREX_ALWAYS_INLINE __mmask64 first_bytes(index n) noexcept { return n >= 64 ? all_bytes : (__mmask64{1} << n) - 1; }

// Lane i holds p[i / Repeat].
template <int Repeat>
IMBREX_ALWAYS_INLINE lanes<float> load_repeated(float const* p) noexcept {
    if constexpr (Repeat == 1) {
        return lanes<float>(_mm512_loadu_ps(p));
    } else if constexpr (Repeat == 2) {
        __m512i const pick = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
        return lanes<float>(_mm512_maskz_permutexvar_ps(all_lanes, pick, _mm512_castps256_ps512(_mm256_loadu_ps(p))));
    } else {
        __m512i const pick = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        return lanes<float>(_mm512_maskz_permutexvar_ps(all_lanes, pick, _mm512_castps128_ps512(_mm_loadu_ps(p))));
    }
}

// Folds lanes that are Distance apart and more, and spreads the result: each row of a group has its own in each of its lanes.
template <int Distance, class F>
IMBREX_ALWAYS_INLINE __m512i fold_rows(__m512i x, F const& both) noexcept {
    x = both(x, _mm512_maskz_shuffle_i32x4(all_lanes, x, x, 0x4e));
    x = both(x, _mm512_maskz_shuffle_i32x4(all_lanes, x, x, 0xb1));
    if (Distance <= 2) x = both(x, _mm512_maskz_shuffle_epi32(all_lanes, x, _MM_PERM_BADC));
    if (Distance <= 1) x = both(x, _mm512_maskz_shuffle_epi32(all_lanes, x, _MM_PERM_CDAB));
    return x;
}

IMBREX_ISA_END

#endif
