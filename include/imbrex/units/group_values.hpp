// Sums of values that have a scale for each group of 32 numbers, with weights of 15 bits and a sign.
//
// A weight p is multiplied by its key's scale of a group and rounded relative to the largest such product of its row and group
// among 32 keys. Codes of two keys are put side by side as words: VPDPWSSD adds two products to each of 16 lanes. Sums of
// products are exact; each becomes f32 once.
//
// The sum of weights l is of p as it is. Rounding is taken back at the end: o of a group is multiplied by the ratio of the sums
// of p scale before and after it, so that values of 1 come out as 1.
#pragma once

#include "imbrex/units/group_codes.hpp"
#include "imbrex/units/seen_keys.hpp"
#include "imbrex/units/softmax_rows.hpp"

#if defined(IMBREX_HAS_INTEGER_UNITS)

IMBREX_ISA_BEGIN

// sum += 2 products of signed words, in each of 16 lanes. In assembly as add_products.
IMBREX_ALWAYS_INLINE void add_word_products(__m512i& sum, __m512i a, __m512i b) noexcept {
    __m512i t = sum;
    asm("vpdpwssd %2, %1, %0" : "+v"(t) : "v"(a), "v"(b));
    sum = t;
}

// E: what values are stored as. Four rows at once; of a vector of weights, lane 4 group + row.
template <class G, class E>
struct group_values {
    using V = lanes<float>;
    using simd = seam<float>;
    using C = group_codes<E>;
    static_assert(G::at_once == 4);
    static constexpr index keys_at_once = integer_scratch::value_keys;
    static constexpr float tiny = 1e-33f;    // for 0 / 0
    static constexpr float most_weight = 32767;

    integer_scratch const& x;
    index head_dim;
    index keys = 0;    // of the tile
    index s_stride = 0;
    seen_keys const* seen = nullptr;

    index o_stride() const noexcept { return integer_scratch::padded(head_dim); }
    index groups() const noexcept { return head_dim / numbers_of_group; }
    index chunks() const noexcept { return (groups() + groups_of_chunk - 1) / groups_of_chunk; }

    void clear() const noexcept { std::fill_n(x.group_sums, G::groups(x) * chunks() * sums * G::W, 0.0f); }

    template <class Rows>
    void take_scales(Rows const&, index count, index stride, seen_keys const* of) noexcept {
        keys = count, s_stride = stride, seen = of;
    }

    // Scores of row group g become weights.
    IMBREX_NOINLINE void weigh(int g, float log2e) const noexcept {
        alignas(64) array_of<float, G::W> unused = {};    // l is summed in the order of o
        weigh_rows<float, 1>(x.s + g * s_stride, G::W, s_stride / G::W, log2e, x.m + g * G::W, nullptr, unused);
        V const alpha = V::load_aligned(x.alpha + g * G::W);
        for (index i = 0; i < chunks() * sums; ++i) {
            float* const sum = x.group_sums + (g * chunks() * sums + i) * G::W;
            (V::load_aligned(sum) * alpha).store_aligned(sum);
        }
    }

    // o += weights x values, l += weights, over the tile.
    template <class Rows>
    IMBREX_NOINLINE void accumulate(Rows const& values) const noexcept {
        for (index j = 0; j < keys; j += keys_at_once) {
            index const n = std::min(keys_at_once, keys - j);
            group_row row[keys_at_once], ahead[keys_at_once];
            group_row::find<keys_at_once>(values, j, n, row);
            index const then = std::min(j + group_rows_ahead<E>(head_dim), keys - 1);
            group_row::find<keys_at_once>(values, then, keys - then, ahead);
            for (int g = 0; g < G::groups(x); ++g) {
                for (index c = 0; c < chunks(); ++c) {
                    index const first = c * groups_of_chunk, some = std::min(groups_of_chunk, groups() - first);
                    alignas(64) array_of<float, G::W> unit;
                    alignas(64) array_of<std::int32_t, G::W> start;
                    round_weights(values, row, j, n, g, c, unit, start);
                    for (index i = 0; i < some; ++i) add_group(row, ahead, n, g, first + i, unit + 4 * i, start + 4 * i);
                }
            }
        }
    }

    // Takes rounding back, once all keys have been added.
    void settle(index rows) const noexcept {
        for (index r = 0; r < rows; ++r) {
            for (index group = 0; group < groups(); ++group) {
                index const at = (r / 4 * chunks() + group / 4) * sums * G::W + group % 4 * 4 + r % 4;
                float const exact = x.group_sums[at], size = x.group_sums[at + G::W], whole = x.group_sums[at + 2 * G::W];
                if (size == 0) continue;    // NaN is not 0
                // exact / whole, where all scales have one sign; else, near enough
                V const factor(1 + (exact - whole) / size * (exact / size));
                float* const o = x.o + r * o_stride() + group * numbers_of_group;
                (V::load_aligned(o) * factor).store_aligned(o);
                (V::load_aligned(o + G::W) * factor).store_aligned(o + G::W);
            }
        }
    }

    // Columns of a group, in order.
    static constexpr int vectors_in_order = 2;
    static void in_order(V (&x)[2]) noexcept { C::in_order(x); }

private:
    static constexpr index sums = 3;    // of p scale, of its size, of the rounded one

    // x.weights: of pairs of keys, 16 lanes of two words. unit: what 1 in a weight is worth; start: what pair_zero adds.
    template <class Rows>
    IMBREX_NOINLINE void round_weights(Rows const& values, group_row const* row, index j, index n, int g, index c, float* unit_to,
                                       std::int32_t* start) const noexcept {
        index const first = c * groups_of_chunk, some = std::min(groups_of_chunk, groups() - first);
        chunk_scales<Rows> const scales{values, first, some};
        float const* const p = x.s + g * s_stride + j * 4;
        V most(tiny), exact(0.0f), size(0.0f), l(0.0f);
        __m512i pick = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        alignas(64) array_of<float, keys_at_once * G::W> w;
        index const fours = (n + 3) / 4;
        _Pragma("GCC unroll 1") for (index i = 0; i < fours; ++i) {
            V d = scales.of_rows(row + 4 * i);
            if (seen != nullptr || 4 * i + 4 > n) d = of_seen(d, j + 4 * i, std::min<index>(4, n - 4 * i));
            IMBREX_UNROLL for (int k = 0; k < 4; ++k) {
                V const weights(_mm512_maskz_broadcast_f32x4(all_lanes, _mm_load_ps(p + (4 * i + k) * 4)));
                V const scale(_mm512_maskz_permutexvar_ps(all_lanes, _mm512_add_epi32(pick, _mm512_set1_epi32(4 * k)), d.data));
                V const e = weights * scale;
                l = l + weights;
                exact = exact + e;
                V const s = xsimd::abs(e);
                size = size + s;
                most = simd::max(most, s);
                e.store_aligned(w + (4 * i + k) * G::W);
            }
        }
        V const inverse = V(most_weight) / most, unit = most / V(most_weight);
        __m512i sum = _mm512_setzero_si512();
        _Pragma("GCC unroll 2") for (index i = 0; i < 2 * fours; ++i) {
            __m512i const a = _mm512_maskz_cvtps_epi32(all_lanes, (V::load_aligned(w + 2 * i * G::W) * inverse).data);
            __m512i const b = _mm512_maskz_cvtps_epi32(all_lanes, (V::load_aligned(w + (2 * i + 1) * G::W) * inverse).data);
            sum = _mm512_add_epi32(sum, _mm512_add_epi32(a, b));
            __m512i const both = _mm512_mask_mov_epi16(a, 0xaaaaaaaa, _mm512_maskz_slli_epi32(all_lanes, b, 16));
            _mm512_store_si512(x.weights + i * G::chunk, both);
        }
        unit.store_aligned(unit_to);
        _mm512_store_si512(start, _mm512_maskz_mullo_epi32(all_lanes, sum, _mm512_set1_epi32(-C::pair_zero)));
        if (some < groups_of_chunk) {
            auto const there = static_cast<__mmask16>((1u << (4 * some)) - 1);
            exact = V(_mm512_maskz_mov_ps(there, exact.data)), size = V(_mm512_maskz_mov_ps(there, size.data));
        }
        float* const all = x.group_sums + (g * chunks() + c) * sums * G::W;
        (V::load_aligned(all) + exact).store_aligned(all);
        (V::load_aligned(all + G::W) + size).store_aligned(all + G::W);
        simd::fma(V(_mm512_maskz_cvtepi32_ps(all_lanes, sum)), unit, V::load_aligned(all + 2 * G::W))
            .store_aligned(all + 2 * G::W);
        if (c == 0) (V::load_aligned(x.l + g * G::W) + l).store_aligned(x.l + g * G::W);
    }

    // Of four keys, the scales of those that are among the n and some row sees; 0 for the others.
    IMBREX_NOINLINE V of_seen(V d, index j, index n) const noexcept {
        unsigned there = 0;
        for (index k = 0; k < n; ++k) there |= seen == nullptr || seen->all(j + k, j + k + 1) ? 0xfu << (4 * k) : 0;
        return V(_mm512_maskz_mov_ps(static_cast<__mmask16>(there), d.data));
    }

    // o of 32 columns += weights x their codes.
    IMBREX_NOINLINE void add_group(group_row const* row, group_row const* ahead, index n, int g, index group, float const* unit,
                                   std::int32_t const* start) const noexcept {
        __m512i sum[4][2];
        IMBREX_UNROLL for (int r = 0; r < 4; ++r) sum[r][0] = sum[r][1] = _mm512_set1_epi32(start[r]);
        index const at = group * C::group_bytes, code = at + C::codes_at, pairs = (n + 1) / 2;
        std::uint8_t const* weights = x.weights + group % groups_of_chunk * 16;
        _Pragma("GCC unroll 2") for (index i = 0; i < pairs; ++i, weights += G::chunk) {
            prefetch_group<E, 2>(ahead + 2 * i, at, groups() * C::group_bytes);
            __m512i v[2];
            C::pairs(row[2 * i].codes + code, row[2 * i + 1].codes + code, v);
            IMBREX_UNROLL for (int r = 0; r < 4; ++r) {
                std::int32_t two;
                __builtin_memcpy(&two, weights + 4 * r, sizeof two);
                __m512i const w = _mm512_set1_epi32(two);
                add_word_products(sum[r][0], v[0], w);
                add_word_products(sum[r][1], v[1], w);
            }
        }
        IMBREX_UNROLL for (int r = 0; r < 4; ++r) {
            float* const o = x.o + (g * 4 + r) * o_stride() + group * numbers_of_group;
            IMBREX_UNROLL for (int h = 0; h < 2; ++h) {
                V const sums_of = V(_mm512_maskz_cvtepi32_ps(all_lanes, sum[r][h]));
                simd::fma(sums_of, V(unit[r]), V::load_aligned(o + h * G::W)).store_aligned(o + h * G::W);
            }
        }
    }
};

IMBREX_ISA_END

#endif
