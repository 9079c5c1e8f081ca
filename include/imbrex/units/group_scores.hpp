// Products of queries and keys that have a scale for each group of 32 numbers: as integer_scores.hpp, but that sums become f32
// after each group, multiplied by its scale.
#pragma once

#include "imbrex/units/group_codes.hpp"
#include "imbrex/units/integer_scores.hpp"

#if defined(IMBREX_HAS_INTEGER_UNITS)

IMBREX_ISA_BEGIN

// E: what keys are stored as. Four rows at once.
template <class G, class E>
struct group_queries {
    using V = lanes<float>;
    using C = group_codes<E>;
    static_assert(G::at_once == 4);
    static constexpr int sets = 2;    // of four keys, that share the loads of q
    static constexpr int step = 4 * sets;
    static constexpr int vectors = sets;
    static constexpr index group_stride = 2 * G::parts * G::at_once * G::chunk;

    integer_scratch const& x;
    index head_dim;

    index groups() const noexcept { return head_dim / numbers_of_group; }
    index stride() const noexcept { return groups() * group_stride; }
    index chunks() const noexcept { return (groups() + groups_of_chunk - 1) / groups_of_chunk; }
    float* start_of(int g) const noexcept { return x.group_start + g * chunks() * G::at_once * G::W; }

    void clear() const noexcept { std::fill_n(x.group_start, G::groups(x) * chunks() * G::at_once * G::W, 0.0f); }

    // x.q: [row group][group][part][16 t][row of the group][4 x the same 16]. NaN or inf in a query makes all its scores NaN.
    template <class Q>
    IMBREX_NOINLINE void pack(Q const* from, int row, float sign) const noexcept {
        int const g = row / G::at_once, r = row % G::at_once;
        query_range const range = query_range::of(from, head_dim);
        V const factor(G::most_query / range.largest);
        std::int8_t* to = x.q + g * stride() + r * G::chunk;
        for (index d = 0; d < head_dim; d += numbers_of_group, to += group_stride) {
            V v[2] = {seam<float>::load(from + d) * factor, seam<float>::load(from + d + G::W) * factor};
            C::in_key_order(v);
            __m512i shift[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
            for (int t = 0; t < 2; ++t) {
                __m512i const whole = _mm512_maskz_cvtps_epi32(all_lanes, v[t].data);
                __m512i const high = _mm512_maskz_srai_epi32(all_lanes, _mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
                if (G::parts == 2) store_part(high, to + t * G::at_once * G::chunk, shift[0]);
                store_part(whole, to + ((G::parts - 1) * 2 + t) * G::at_once * G::chunk, shift[1]);    // its low byte
            }
            __m512i const all = _mm512_add_epi32(_mm512_maskz_slli_epi32(all_lanes, shift[0], 8), shift[1]);
            alignas(64) array_of<std::int32_t, G::W> lane;
            _mm512_store_si512(lane, all);
            index const group = d / numbers_of_group;
            float* const start = start_of(g) + (group / groups_of_chunk * G::at_once + r) * G::W + group % groups_of_chunk;
            for (int k = 0; k < 4; ++k) start[4 * k] = static_cast<float>(-(lane[0] + lane[1] + lane[2] + lane[3]));
        }
        range.store_unit(x.q_unit + g * G::W, r, G::at_once, sign / G::most_query);
    }

    // The products of a tile, as [row group][key][row of the group] in x.s.
    template <class Tile>
    IMBREX_NOINLINE void multiply(Tile const& tile, index keys, index s_stride) const noexcept {
        index const rows_ahead = group_rows_ahead<E>(head_dim);
        for (index j = 0; j < keys; j += step) {
            group_row key[step], ahead[step];
            group_row::find<step>(tile.keys, j, keys - j, key);
            find_expected(tile, keys, j + rows_ahead, ahead);
            multiply(tile.keys, key, ahead, 0, x.s + j * 4);
            for (int g = 1; g < G::groups(x); ++g) multiply(tile.keys, key, key, g, x.s + g * s_stride + j * 4);
        }
    }

    // sum[v]: the products of row group g and step keys from `first`.
    IMBREX_ALWAYS_INLINE void products(index first, int, int g, index s_stride, array_of<V, vectors>& sum) const noexcept {
        float const* const s = x.s + g * s_stride + first * 4;
        IMBREX_UNROLL for (int v = 0; v < vectors; ++v) sum[v] = V::load_aligned(s + v * G::W);
    }

private:
    // f[set][row]: lane 4 k + e holds every fourth product of the row and key 4 set + k.
    template <class Rows>
    IMBREX_ALWAYS_INLINE void multiply(Rows const& rows, group_row const (&key)[step], group_row const (&ahead)[step], int g,
                                       float* to) const noexcept {
        V f[sets][4];
        IMBREX_UNROLL for (int s = 0; s < sets; ++s) { IMBREX_UNROLL for (int r = 0; r < 4; ++r) f[s][r] = V(0.0f); }
        std::int8_t const* q = x.q + g * stride();
        float const* start = start_of(g);
        for (index group = 0; group < groups(); group += groups_of_chunk) {
            index const some = std::min(groups_of_chunk, groups() - group);
            chunk_scales<Rows> const scales{rows, group, some};
            V d[sets];
            IMBREX_UNROLL for (int s = 0; s < sets; ++s) d[s] = scales.of_rows(key + 4 * s);
            IMBREX_UNROLL for (int r = 0; r < 4; ++r, start += G::W) {    // what adding C::zero to the codes has added
                V const added = V::load_aligned(start);
                IMBREX_UNROLL for (int s = 0; s < sets; ++s) f[s][r] = seam<float>::fma(d[s], added, f[s][r]);
            }
            __m512i pick = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
            _Pragma("GCC unroll 1") for (index i = 0; i < some; ++i) {
                index const at = (group + i) * C::group_bytes;
                if (g == 0) prefetch_group<E, step>(ahead, at, groups() * C::group_bytes);
                fours_of_vectors<sets> a;
                byte_vectors<2> k[sets];
                IMBREX_UNROLL for (int s = 0; s < sets; ++s) {
                    group_row const* const r = key + 4 * s;
                    index const code = at + C::codes_at;
                    C::unsigned_codes({r[0].codes + code, r[1].codes + code, r[2].codes + code, r[3].codes + code}, k[s]);
                    IMBREX_UNROLL for (int r4 = 0; r4 < 4; ++r4) a[s][r4] = _mm512_setzero_si512();
                }
                IMBREX_UNROLL for (int part = 0; part < G::parts; ++part) {
                    IMBREX_UNROLL for (int r = 0; r < 4; ++r) {
                        IMBREX_UNROLL for (int t = 0; t < 2; ++t) {
                            __m512i const some_q = _mm512_load_si512(q + ((part * 2 + t) * 4 + r) * G::chunk);
                            IMBREX_UNROLL for (int s = 0; s < sets; ++s) add_products(a[s][r], k[s][t], some_q);
                        }
                        if (part == 0 && G::parts == 2) {
                            IMBREX_UNROLL for (int s = 0; s < sets; ++s) a[s][r] = _mm512_maskz_slli_epi32(all_lanes, a[s][r], 8);
                        }
                    }
                }
                IMBREX_UNROLL for (int s = 0; s < sets; ++s) {
                    V const scale(_mm512_maskz_permutexvar_ps(all_lanes, pick, d[s].data));
                    IMBREX_UNROLL for (int r = 0; r < 4; ++r) {
                        f[s][r] = seam<float>::fma(V(_mm512_maskz_cvtepi32_ps(all_lanes, a[s][r])), scale, f[s][r]);
                    }
                }
                pick = _mm512_add_epi32(pick, _mm512_set1_epi32(1));
                q += group_stride;
            }
        }
        V const unit = V::load_aligned(x.q_unit + g * G::W);
        IMBREX_UNROLL for (int s = 0; s < sets; ++s)(integer_queries<G>::sums_of_quads(f[s]) * unit).store_aligned(to + s * G::W);
    }

    static void store_part(__m512i v, std::int8_t* to, __m512i& shift) noexcept {
        __m512i const bytes = _mm512_maskz_broadcast_i32x4(all_lanes, _mm512_maskz_cvtepi32_epi8(all_lanes, v));
        _mm512_store_si512(to, bytes);
        add_products(shift, _mm512_set1_epi8(static_cast<char>(C::zero)), bytes);
    }

    // The rows that are read that much later: of keys, then of values.
    template <class Tile>
    static IMBREX_ALWAYS_INLINE void find_expected(Tile const& tile, index keys, index j, group_row (&to)[step]) noexcept {
        if (j + step <= keys) return group_row::find<step>(tile.keys, j, step, to);
        index const v = std::clamp<index>(j - keys, 0, std::max<index>(keys - step, 0));
        group_row::find<step>(tile.values, v, keys - v, to);
    }
};

IMBREX_ISA_END

#endif
