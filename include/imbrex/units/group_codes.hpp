// Encodings with a scale for each 32 numbers, or for some 32s of them, as the integer units read them: ggml's q8_0 and q4_0, and
// int8 and int4 with groups of a multiple of 32. A chunk is four groups, 128 numbers.
//
//   group_bytes, codes_at     bytes of a group and where its codes begin
//   zero                      what unsigned_codes adds to a code
//   unsigned_codes(p, k)      of the groups at p[0] ... p[3]: k[t], t = 0, 1, has codes 16 t + i, a key to a quad of lanes
//   pairs(p0, p1, v)          of two groups: v[h] has words, a code of p0's beside one of p1's, less pair_zero
//   in_key_order(q)           numbers of a group of queries, in order, into that of unsigned_codes
//   in_order(o)               sums of a group of columns, in the order of pairs, into order
#pragma once

#include "imbrex/rows.hpp"
#include "imbrex/units/integer_layout.hpp"

#if defined(IMBREX_HAS_INTEGER_UNITS)

IMBREX_ISA_BEGIN

inline constexpr index numbers_of_group = 32;
inline constexpr index groups_of_chunk = 4;

struct byte_groups {
    static constexpr int zero = 128;
    static constexpr int pair_zero = 0;

    static void in_key_order(lanes<float> (&)[2]) noexcept {}
    // Columns 0 ... 7, 16 ... 23 and 8 ... 15, 24 ... 31.
    static IMBREX_ALWAYS_INLINE void in_order(lanes<float> (&o)[2]) noexcept {
        __m512 const a = o[0].data, b = o[1].data;
        o[0] = lanes<float>(_mm512_maskz_shuffle_f32x4(all_lanes, a, b, 0x44));
        o[1] = lanes<float>(_mm512_maskz_shuffle_f32x4(all_lanes, a, b, 0xee));
    }

    static IMBREX_ALWAYS_INLINE void unsigned_codes(std::uint8_t const* const (&p)[4], __m512i (&k)[2]) noexcept {
        __m512i const top = _mm512_set1_epi8(static_cast<char>(0x80));
        __m512i const a = two(p[0], p[1]), b = two(p[2], p[3]);
        k[0] = _mm512_xor_si512(_mm512_maskz_shuffle_i64x2(0xff, a, b, 0x88), top);
        k[1] = _mm512_xor_si512(_mm512_maskz_shuffle_i64x2(0xff, a, b, 0xdd), top);
    }
    static IMBREX_ALWAYS_INLINE void pairs(std::uint8_t const* p0, std::uint8_t const* p1, __m512i (&v)[2]) noexcept {
        __m256i const a = load32(p0), b = load32(p1);
        v[0] = _mm512_maskz_cvtepi8_epi16(all_words, _mm256_unpacklo_epi8(a, b));
        v[1] = _mm512_maskz_cvtepi8_epi16(all_words, _mm256_unpackhi_epi8(a, b));
    }

private:
    static IMBREX_ALWAYS_INLINE __m256i load32(void const* p) noexcept {
        return _mm256_loadu_si256(static_cast<__m256i const*>(p));
    }
    static IMBREX_ALWAYS_INLINE __m512i two(void const* p, void const* q) noexcept {
        return _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(load32(p)), load32(q), 1);
    }
};

// Low nibbles, then high ones.
struct nibble_groups {
    static constexpr int zero = 8;
    static constexpr int pair_zero = 8;

    static void in_key_order(lanes<float> (&)[2]) noexcept {}
    static void in_order(lanes<float> (&)[2]) noexcept {}

    static IMBREX_ALWAYS_INLINE void unsigned_codes(std::uint8_t const* const (&p)[4], __m512i (&k)[2]) noexcept {
        __m512i const low = _mm512_set1_epi8(0x0f);
        __m256i const a = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p[0])), load16(p[1]), 1);
        __m256i const b = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p[2])), load16(p[3]), 1);
        __m512i const bytes = _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(a), b, 1);
        k[0] = _mm512_and_si512(bytes, low);
        k[1] = _mm512_and_si512(_mm512_maskz_srli_epi16(all_words, bytes, 4), low);
    }
    static IMBREX_ALWAYS_INLINE void pairs(std::uint8_t const* p0, std::uint8_t const* p1, __m512i (&v)[2]) noexcept {
        __m128i const a = load16(p0), b = load16(p1);
        __m256i const bytes =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi8(a, b)), _mm_unpackhi_epi8(a, b), 1);
        __m512i const words = _mm512_maskz_cvtepu8_epi16(all_words, bytes);
        v[0] = _mm512_and_si512(words, _mm512_set1_epi16(0x0f));
        v[1] = _mm512_maskz_srli_epi16(all_words, words, 4);
    }

private:
    static IMBREX_ALWAYS_INLINE __m128i load16(void const* p) noexcept { return _mm_loadu_si128(static_cast<__m128i const*>(p)); }
};

template <class E>
struct group_codes;
template <>
struct group_codes<q8_0_block> : byte_groups {
    static constexpr index group_bytes = 34, codes_at = 2;
};
template <>
struct group_codes<std::int8_t> : byte_groups {
    static constexpr index group_bytes = 32, codes_at = 0;
};
template <>
struct group_codes<q4_0_block> : nibble_groups {
    static constexpr index group_bytes = 18, codes_at = 2;
};
template <>
struct group_codes<int4_pair> : nibble_groups {
    static constexpr index group_bytes = 16, codes_at = 0;
    // Even columns, then odd ones.
    static IMBREX_ALWAYS_INLINE void in_key_order(lanes<float> (&q)[2]) noexcept {
        __m512i const even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        __m512 const a = q[0].data, b = q[1].data;
        q[0] = lanes<float>(_mm512_permutex2var_ps(a, even, b));
        q[1] = lanes<float>(_mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b));
    }
    static IMBREX_ALWAYS_INLINE void in_order(lanes<float> (&o)[2]) noexcept {
        __m512i const low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        __m512 const a = o[0].data, b = o[1].data;
        o[0] = lanes<float>(_mm512_permutex2var_ps(a, low, b));
        o[1] = lanes<float>(_mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b));
    }
};

template <class E>
concept grouped = requires {
    group_codes<E>::group_bytes;
};

// Whether scales, if any lie beside the rows, change at multiples of 32 numbers only.
template <class Rows>
bool in_groups(Rows const& rows, index head_dim) noexcept {
    if constexpr (has_side_scales<Rows>) {
        if (rows.group % numbers_of_group != 0) return false;
    }
    return head_dim % numbers_of_group == 0;
}

// Where a row lies.
struct group_row {
    std::uint8_t const* codes;
    float const* scales;    // beside it, or none

    template <class Rows>
    static IMBREX_ALWAYS_INLINE group_row of(Rows const& rows, index j) noexcept {
        group_row r{reinterpret_cast<std::uint8_t const*>(rows.row(j)), nullptr};
        if constexpr (has_side_scales<Rows>) r.scales = rows.scales(j).data;
        return r;
    }

    // Those from j on; where there are but n < N, the last repeats. Decision: addresses are hidden from g++ 12, which would
    // compute them as vectors, 64-bit products included.
    template <int N, class Rows>
    static IMBREX_ALWAYS_INLINE void find(Rows const& rows, index j, index n,
                                          group_row (&to)[static_cast<std::size_t>(N)]) noexcept {
        if (n >= N) {
            if (auto const run = rows.from(j).in_one_run(N)) {
                group_row r = of(*run, 0);
                group_row const next = of(*run, 1);
                index const stride = next.codes - r.codes, scale_stride = next.scales - r.scales;
                IMBREX_UNROLL for (int u = 0; u < N; ++u) {
                    to[u] = r;
                    r.codes += stride, r.scales += scale_stride;
                    asm("" : "+r"(r.codes));
                    if constexpr (has_side_scales<Rows>) asm("" : "+r"(r.scales));
                }
                return;
            }
        }
        for (int u = 0; u < N; ++u) {
            to[u] = of(rows, j + std::min<index>(u, n - 1));
            asm("" : "+r"(to[u].codes));
        }
    }
};

// Rows ahead that are asked for: about 6 KB. Of q8_0 32 / 48 / 80 / 128 rows reach 1.16 / 1.22 / 1.22 / 1.14 times the speed of
// bf16 on 4 KB pages, 1.30 / 1.44 / 1.46 / 1.44 on huge ones (D=128, 32/8 heads, AMD Zen 4, g++ 12, 2026-12-01).
template <class E>
constexpr index group_rows_ahead(index head_dim) noexcept {
    return std::clamp<index>(6144 / row_bytes<E>(head_dim), 40, 128);
}

// Asks for the part of some rows, of `end` bytes, where their group at `at` lies. Of q8_0 at every group, since its rows end
// anywhere in a line; of shorter groups once in 64 bytes, and for the end of rows that are no whole lines: without it every ninth
// line of q4_0 is missing, and 1.45 times the speed of bf16 falls to 1.10 (huge pages, AMD Zen 4, g++ 12, 2026-12-01).
template <class E, index N>
IMBREX_ALWAYS_INLINE void prefetch_group(group_row const* row, index at, index end) noexcept {
    constexpr index bytes = group_codes<E>::group_bytes;
    if (bytes > 32 || at % 64 < bytes) {
        IMBREX_UNROLL for (index u = 0; u < N; ++u) prefetch(row[u].codes + at);
    }
    if (bytes < 32 && 64 % bytes != 0 && at + bytes == end) {
        IMBREX_UNROLL for (index u = 0; u < N; ++u) prefetch(row[u].codes + end - 1);
    }
}

// The scales of one chunk, a row at a time. Nothing beyond the row is read.
template <class Rows>
struct chunk_scales {
    using E = typename Rows::element;
    static constexpr index group_bytes = group_codes<E>::group_bytes;

    __m128i pick{};
    __mmask8 first = 0;
    index at = 0;
    index next[3] = {};

    // Of groups [group, group + n), n at most groups_of_chunk.
    IMBREX_ALWAYS_INLINE chunk_scales(Rows const& rows, index group, index n) noexcept {
        if constexpr (has_side_scales<Rows>) {
            at = group * numbers_of_group / rows.group;
            alignas(16) std::int32_t of[4];
            for (index i = 0; i < 4; ++i) {
                index const g = group + std::min(i, n - 1);
                of[i] = static_cast<std::int32_t>(g * numbers_of_group / rows.group - at);
            }
            first = static_cast<__mmask8>((1u << (of[3] + 1)) - 1);
            pick = _mm_load_si128(reinterpret_cast<__m128i const*>(of));
        } else {
            at = group * group_bytes;
            IMBREX_UNROLL for (int i = 0; i < 3; ++i) next[i] = at + std::min<index>(i + 1, n - 1) * group_bytes;
        }
    }

    // Lane 4 k + g: of group g of row k of the four. Of groups beyond the n, anything.
    IMBREX_ALWAYS_INLINE lanes<float> of_rows(group_row const* row) const noexcept {
        if constexpr (has_side_scales<Rows>) {
            __m128 x[4];
            IMBREX_UNROLL for (int k = 0; k < 4; ++k) {
                __m128 const s = _mm_maskz_loadu_ps(first, row[k].scales + at);
                x[k] = _mm_permutevar_ps(s, pick);
            }
            __m256 const a = _mm256_insertf128_ps(_mm256_castps128_ps256(x[0]), x[1], 1);
            __m256 const b = _mm256_insertf128_ps(_mm256_castps128_ps256(x[2]), x[3], 1);
            return lanes<float>(_mm512_maskz_insertf32x8(all_lanes, _mm512_castps256_ps512(a), b, 1));
        } else {
            __m128i x[4];
            IMBREX_UNROLL for (int k = 0; k < 4; ++k) x[k] = four_halves(row[k].codes);
            __m128i const a = _mm_unpacklo_epi64(x[0], x[1]), b = _mm_unpacklo_epi64(x[2], x[3]);
            __m256i const halves = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
            return lanes<float>(_mm512_maskz_cvtph_ps(all_lanes, halves));
        }
    }

private:
    IMBREX_ALWAYS_INLINE __m128i four_halves(std::uint8_t const* p) const noexcept {
        __m128i const a = _mm_unpacklo_epi16(load16(p + at), load16(p + next[0]));
        __m128i const b = _mm_unpacklo_epi16(load16(p + next[1]), load16(p + next[2]));
        return _mm_unpacklo_epi32(a, b);
    }
    static IMBREX_ALWAYS_INLINE __m128i load16(void const* p) noexcept { return _mm_loadu_si128(static_cast<__m128i const*>(p)); }
};

IMBREX_ISA_END

#endif
