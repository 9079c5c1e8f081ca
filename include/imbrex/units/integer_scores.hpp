// Products of queries and int8 keys: packs the queries, and multiplies them with keys as they lie.
//
// Four keys at a time: their 16 bytes at columns 16 t become one vector, a key to a quad of lanes, which is multiplied with the
// same 16 bytes of each query; so 4 keys x 4 rows need 4 sums, and no tree of shuffles afterwards. Bytes of keys are made
// unsigned by adding 128, and sums start at what that adds.
#pragma once

#include "imbrex/units/integer_layout.hpp"
#include "imbrex/units/narrow_layout.hpp"

#if defined(IMBREX_HAS_INTEGER_UNITS)

IMBREX_ISA_BEGIN

// The largest size of a query's numbers, and 0 or, where one is NaN or inf, NaN.
struct query_range {
    float largest = 0, nan = 0;

    template <class Q>
    static query_range of(Q const* from, index n) noexcept {
        using V = lanes<float>;
        constexpr index W = lane_count<float>;
        V most(0.0f), nan(0.0f);
        for (index d = 0; d < n; d += W) {
            V const v = load_upto<float>(from + d, n - d);
            most = seam<float>::max(most, xsimd::abs(v));
            nan = nan + (v - v);
        }
        alignas(64) array_of<float, W> most_of, nan_of;
        most.store_aligned(most_of);
        nan.store_aligned(nan_of);
        query_range range{std::max(1e-30f, *std::max_element(most_of, most_of + W)), 0};
        for (float const none : nan_of) range.nan += none;
        return range;
    }
    // Every so many lanes from r: what 1 in the query is worth.
    void store_unit(float* to, int r, int apart, float factor) const noexcept {
        for (int i = r; i < lane_count<float>; i += apart) to[i] = factor * largest + nan;
    }
};

template <class G>
struct integer_queries {
    using V = lanes<float>;
    static constexpr int side = 2;    // sets of four keys that share the loads of q, of which one a cycle is the limit
    static constexpr int step = std::max(G::block, 4 * side);    // keys that `products` takes
    static constexpr int vectors = step / G::block;
    static constexpr index piece = 16;    // columns

    // Rows ahead that are asked for: 32 / 40 / 48 / 64 / 96 reach 1.32 / 1.46 / 1.45 / 1.37 / 1.18 times the speed of bf16 on 4
    // KB pages, 1.31 / 1.49 / 1.51 / 1.41 / 1.42 on huge ones, none 1.07 and 1.03; hint T0 0.99 (D=128, 32/8 heads, AMD Zen 4,
    // g++ 12, 2026-11-30).
    static constexpr index rows_ahead = 48;

    integer_scratch const& x;
    index head_dim;

    index stride() const noexcept { return integer_scratch::padded(head_dim) * 4 * G::parts * G::at_once; }

    void clear() const noexcept {
        std::fill_n(x.q, G::groups(x) * stride(), std::int8_t(0));
        std::fill_n(x.q_start, G::groups(x) * G::parts * G::at_once * G::W, 0);
    }

    // NaN or inf in a query makes all its scores NaN.
    template <class Q>
    IMBREX_NOINLINE void pack(Q const* from, int row, float sign) const noexcept {
        int const g = row / G::at_once, r = row % G::at_once;
        query_range const range = query_range::of(from, head_dim);
        V const factor(G::most_query / range.largest);
        std::int8_t* to = x.q + g * stride() + r * G::chunk;
        std::int32_t* const start = x.q_start + (g * G::parts * G::at_once + r) * G::W;
        for (index d = 0; d < head_dim; d += piece, to += G::parts * G::at_once * G::chunk) {
            __m512i const v = _mm512_maskz_cvtps_epi32(all_lanes, (load_upto<float>(from + d, head_dim - d) * factor).data);
            __m512i const high = _mm512_maskz_srai_epi32(all_lanes, _mm512_add_epi32(v, _mm512_set1_epi32(128)), 8);
            store_part(v, to + (G::parts - 1) * G::at_once * G::chunk,
                       start + (G::parts - 1) * G::at_once * G::W);    // its low byte
            if (G::parts == 2) store_part(high, to, start);
        }
        range.store_unit(x.q_unit + g * G::W, r, G::at_once, sign / G::most_query);
    }

    // Takes the scales of a tile's keys; products are made as they are asked for.
    template <class Tile>
    void multiply(Tile const& tile, index keys, index) const noexcept {
        for (index j = 0; j < keys; ++j) x.key_scales[j] = tile.keys.scale(j);
        for (index j = keys; j < keys + G::W; ++j) x.key_scales[j] = 0;
    }

    // sum[v]: the products of row group g and keys [first, first + n), n <= step, as [key][row of the group].
    template <class Tile>
    IMBREX_ALWAYS_INLINE void products(Tile const& tile, index keys, index first, int n, int g,
                                       array_of<V, vectors>& sum) const noexcept {
        array_of<V, 4 * vectors> lanes_of;
        IMBREX_UNROLL for (int i = 0; i < step; i += 4 * side) {
            array_of<std::int8_t const*, 4 * side> key, ahead;
            IMBREX_UNROLL for (int u = 0; u < 4 * side; ++u) key[u] = tile.keys.row(first + std::min(i + u, n - 1));
            expected_rows(tile, keys, first + i + rows_ahead, ahead);
            multiply(key, ahead, g, lanes_of + i / 4 * G::at_once);
        }
        V const unit = V::load_aligned(x.q_unit + g * G::W);
        IMBREX_UNROLL for (int v = 0; v < vectors; ++v) {
            V const scales = load_repeated<G::at_once>(x.key_scales + first + v * G::block);
            sum[v] = (sums_of_quads(lanes_of + 4 * v) * unit) * scales;
        }
    }

    // The sums of quads of lanes of a[set at_once + r], as [key][row].
    static IMBREX_ALWAYS_INLINE V sums_of_quads(V const* a) noexcept {
        V const x01 = V(_mm512_maskz_unpacklo_ps(all_lanes, a[0].data, a[1].data)) +
                      V(_mm512_maskz_unpackhi_ps(all_lanes, a[0].data, a[1].data));
        V const x23 = V(_mm512_maskz_unpacklo_ps(all_lanes, a[2].data, a[3].data)) +
                      V(_mm512_maskz_unpackhi_ps(all_lanes, a[2].data, a[3].data));
        V const s = V(_mm512_shuffle_ps(x01.data, x23.data, 0x44)) + V(_mm512_shuffle_ps(x01.data, x23.data, 0xee));
        if constexpr (G::at_once == 4) return s;
        __m512i const order = G::at_once == 2 ? _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)
                                              : _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return V(_mm512_maskz_permutexvar_ps(all_lanes, order, s.data));
    }

private:
    static void store_part(__m512i v, std::int8_t* to, std::int32_t* start) noexcept {
        __m512i const bytes = _mm512_maskz_broadcast_i32x4(all_lanes, _mm512_maskz_cvtepi32_epi8(all_lanes, v));
        _mm512_store_si512(to, bytes);
        __m512i shift = _mm512_setzero_si512();
        add_products(shift, _mm512_set1_epi8(static_cast<char>(0x80)), bytes);
        _mm512_store_si512(start, _mm512_sub_epi32(_mm512_load_si512(start), shift));
    }

    // The rows that are read that much later: of keys, then of values.
    template <class Tile>
    static IMBREX_ALWAYS_INLINE void expected_rows(Tile const& tile, index keys, index j,
                                                   array_of<std::int8_t const*, 4 * side>& row) noexcept {
        if (j + 4 * side <= keys) {
            IMBREX_UNROLL for (int u = 0; u < 4 * side; ++u) row[u] = tile.keys.row(j + u);
        } else {
            index const v = std::min(std::max<index>(j - keys, 0), std::max<index>(keys - 4 * side, 0));
            IMBREX_UNROLL for (int u = 0; u < 4 * side; ++u) row[u] = tile.values.row(std::min(v + u, keys - 1));
        }
    }

    // sum[u at_once + r]: lane 4 k + e holds every fourth product of row r and key 4 u + k.
    IMBREX_ALWAYS_INLINE void multiply(array_of<std::int8_t const*, 4 * side> const& key,
                                       array_of<std::int8_t const*, 4 * side> const& ahead, int g, V* sum) const noexcept {
        byte_vectors<side * G::at_once> high, low;
        std::int32_t const* const start = x.q_start + g * G::parts * G::at_once * G::W;
        IMBREX_UNROLL for (int i = 0; i < side * G::at_once; ++i) {
            high[i] = _mm512_load_si512(start + i % G::at_once * G::W);
            low[i] = _mm512_load_si512(start + ((G::parts - 1) * G::at_once + i % G::at_once) * G::W);
        }
        std::int8_t const* q = x.q + g * stride();
        __m512i const top = _mm512_set1_epi8(static_cast<char>(0x80));
        auto const add = [&](fours_of_vectors<side> & k) __attribute__((always_inline)) {
            IMBREX_UNROLL for (int u = 0; u < side; ++u) transpose_quads(k[u]);
            IMBREX_UNROLL for (int t = 0; t < 4; ++t, q += G::parts * G::at_once * G::chunk) {
                IMBREX_UNROLL for (int u = 0; u < side; ++u) k[u][t] = _mm512_xor_si512(k[u][t], top);
                IMBREX_UNROLL for (int r = 0; r < G::at_once; ++r) {
                    __m512i const first = _mm512_load_si512(q + r * G::chunk);
                    IMBREX_UNROLL for (int u = 0; u < side; ++u) add_products(high[u * G::at_once + r], k[u][t], first);
                    if constexpr (G::parts == 2) {
                        __m512i const second = _mm512_load_si512(q + (G::at_once + r) * G::chunk);
                        IMBREX_UNROLL for (int u = 0; u < side; ++u) add_products(low[u * G::at_once + r], k[u][t], second);
                    }
                }
            }
        };
        fours_of_vectors<side> k;
        index d = 0;
        _Pragma("GCC unroll 1") for (; d + G::chunk <= head_dim; d += G::chunk) {
            IMBREX_UNROLL for (int i = 0; i < 4 * side; ++i) {
                if (g == 0) prefetch(ahead[i] + d);
                k[i / 4][i % 4] = _mm512_loadu_si512(key[i] + d);
            }
            add(k);
        }
        if (d < head_dim) {
            __mmask64 const there = first_bytes(head_dim - d);
            IMBREX_UNROLL for (int i = 0; i < 4 * side; ++i) {
                if (g == 0) prefetch(ahead[i] + d);
                k[i / 4][i % 4] = _mm512_maskz_loadu_epi8(there, key[i] + d);
            }
            add(k);
        }
        // At most 256 x 255 x 32639 + ..., for head_dim 1024: within 32 bits.
        IMBREX_UNROLL for (int i = 0; i < side * G::at_once; ++i) {
            __m512i const both =
                G::parts == 2 ? _mm512_add_epi32(_mm512_maskz_slli_epi32(all_lanes, high[i], 8), low[i]) : high[i];
            sum[i] = V(_mm512_maskz_cvtepi32_ps(all_lanes, both));
        }
    }
};

IMBREX_ISA_END

#endif
