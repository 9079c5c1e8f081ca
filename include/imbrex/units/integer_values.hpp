// Sums of int8 values with weights of one byte or two.
//
// A weight p is multiplied by its key's scale and rounded relative to the largest such product of its row among 32 keys.
// Bytes of 4 keys are interleaved once for all rows of a group, and read again from L1 for the low bytes of weights.
//
// The sum of weights l. Decision: o sums rounded weights w ~ p scale; with equal scales, l = sum w / scale is what makes values
// of 1 come out as 1. But where a key's values are small (attention sinks: p = 0.9, scale 0), w / scale is far from p. So what
// rounding did counts as if all scales were the tile's largest: l = sum w / largest + sum p (1 - scale / largest), in which the
// second part is 0 with equal scales, and rounding is never magnified.
#pragma once

#include "imbrex/units/integer_layout.hpp"
#include "imbrex/units/seen_keys.hpp"

#if defined(IMBREX_HAS_INTEGER_UNITS)

IMBREX_ISA_BEGIN

template <class G>
struct integer_values {
    using V = lanes<float>;
    using simd = seam<float>;
    static constexpr index keys_at_once = integer_scratch::value_keys;
    static constexpr float tiny = 1e-33f;      // for 0 / 0
    static constexpr index rows_ahead = 48;    // see integer_queries

    integer_scratch const& x;
    index head_dim;
    index keys = 0;    // of the tile
    index s_stride = 0;
    float largest = tiny;     // of the tile's scales
    bool negative = false;    // some scale is

    void clear() const noexcept {}
    void settle(index) const noexcept {}
    index o_stride() const noexcept { return integer_scratch::padded(head_dim); }

    // The scales of the tile's values; 0 for those that no row sees.
    template <class Rows>
    IMBREX_NOINLINE void take_scales(Rows const& values, index count, index stride, seen_keys const* seen) noexcept {
        keys = count, s_stride = stride;
        index const end = integer_scratch::four_vectors(keys) + G::W;
        for (index j = 0; j < keys; ++j) x.value_scales[j] = values.scale(j);
        for (index j = keys; j < end; ++j) x.value_scales[j] = 0;
        for (index j = 0; seen != nullptr && j < keys; ++j) x.value_scales[j] = seen->all(j, j + 1) ? x.value_scales[j] : 0;
        V most(tiny), least(0.0f);
        for (index j = 0; j < end; j += G::W) {
            V const scale = V::load_aligned(x.value_scales + j);
            most = simd::max(most, xsimd::abs(scale));
            least = simd::at_most(least, scale);
        }
        alignas(64) array_of<float, G::W> most_of, least_of;
        most.store_aligned(most_of);
        least.store_aligned(least_of);
        largest = *std::max_element(most_of, most_of + G::W);
        negative = *std::min_element(least_of, least_of + G::W) < 0;
        for (index j = 0; j < end; j += G::W) {
            (V(1.0f) - xsimd::abs(V::load_aligned(x.value_scales + j)) / V(largest)).store_aligned(x.value_shares + j);
        }
    }

    // Scores of row group g become weights times scales of values; l_rest grows.
    IMBREX_NOINLINE void weigh(int g, float log2e) const noexcept {
        V const m = V::load_aligned(x.m + g * G::W);
        V rest = V::load_aligned(x.l_rest + g * G::W) * V::load_aligned(x.alpha + g * G::W);
        constexpr index at_once = keys_at_once * G::at_once;    // scores
        constexpr int together = std::min<int>(4, at_once / G::W);
        for (index first = 0, n = 0; first < s_stride; first += at_once, ++n) {
            V most(0.0f);
            for (index i = first; i < std::min(first + at_once, s_stride); i += together * G::W) {
                array_of<V, together> p;
                IMBREX_UNROLL for (int u = 0; u < together; ++u) {
                    p[u] = (V::load_aligned(x.s + g * s_stride + i + u * G::W) - m) * V(log2e);
                }
                simd::template exp2<together>(p);
                IMBREX_UNROLL for (int u = 0; u < together; ++u) {
                    index const key = i / G::at_once + u * G::block;
                    rest = simd::fma(p[u], load_repeated<G::at_once>(x.value_shares + key), rest);
                    V const e = p[u] * load_repeated<G::at_once>(x.value_scales + key);
                    most = simd::max(most, xsimd::abs(e));
                    e.store_aligned(x.s + g * s_stride + i + u * G::W);
                }
            }
            auto const larger = [](__m512i a, __m512i b) {
                return _mm512_castps_si512(_mm512_maskz_max_ps(all_lanes, _mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
            };
            __m512i const folded = fold_rows<G::at_once>(_mm512_castps_si512(most.data), larger);
            V(_mm512_castsi512_ps(folded)).store_aligned(x.s_most + (g * blocks() + n) * G::W);
        }
        rest.store_aligned(x.l_rest + g * G::W);
    }

    // o += weights x values, l += weights, over the tile.
    template <class Rows>
    IMBREX_NOINLINE void accumulate(Rows const& values) const noexcept {
        for (index j = 0; j < keys; j += keys_at_once) {
            index const n = std::min(keys_at_once, keys - j);
            for (int g = 0; g < G::groups(x); ++g) {
                add_weighted<1>(values, j, n, g);
                if (negative) add_weighted<-1>(values, j, n, g);
            }
        }
    }

    // Four vectors of columns, in order.
    static constexpr int vectors_in_order = 4;
    static void in_order(V (&x)[4]) noexcept {
        __m512i quads[4];
        for (int i = 0; i < 4; ++i) quads[i] = _mm512_castps_si512(x[i].data);
        transpose_quads(quads);
        for (int i = 0; i < 4; ++i) x[i] = V(_mm512_castsi512_ps(quads[i]));
    }

private:
    index blocks() const noexcept { return (s_stride / G::at_once + keys_at_once - 1) / keys_at_once; }

    // Those whose scale has that sign.
    template <int Sign, class Rows>
    IMBREX_ALWAYS_INLINE void add_weighted(Rows const& values, index j, index n, int g) const noexcept {
        alignas(64) array_of<float, G::W> unit;
        round_weights<Sign>(j, n, g, unit);
        for (index c = 0; c < o_stride(); c += G::chunk) {
            if (g == 0) {
                add_columns<true>(values, j, n, g, c, unit);
            } else {
                add_columns<false>(values, j, n, g, c, unit);
            }
        }
    }

    // Two vectors of weights, of 32 / at_once keys, are 8 quads (4 keys, row); of each two quads the high bytes lie before the
    // low ones. unit: what 1 in a weight is worth.
    template <int Sign>
    IMBREX_ALWAYS_INLINE void round_weights(index j, index n, int g, float* unit) const noexcept {
        float const* const e = x.s + g * s_stride + j * G::at_once;
        V const most = simd::max(V(tiny), V::load_aligned(x.s_most + (g * blocks() + j / keys_at_once) * G::W));
        V const inverse = V(Sign * G::most_weight) / most;
        __m512i sum = _mm512_setzero_si512();
        alignas(64) static constexpr auto order = quads_of_words();
        __m512i const quads = _mm512_load_si512(order.word);
        __m512i const bytes =
            _mm512_maskz_broadcast_i32x4(all_lanes, _mm_setr_epi8(1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14));
        for (index i = 0; i < n * G::at_once; i += 2 * G::W) {
            byte_vectors<2> w;
            IMBREX_UNROLL for (int u = 0; u < 2; ++u) {
                V const scaled = simd::max(V::load_aligned(e + i + u * G::W) * inverse, V(0.0f));    // NaN: 0; l_rest has it
                w[u] = _mm512_maskz_cvtps_epi32(all_lanes, scaled.data);
                sum = _mm512_add_epi32(sum, w[u]);
            }
            _mm512_store_si512(x.weights + i * 2,
                               _mm512_maskz_shuffle_epi8(all_bytes, _mm512_permutex2var_epi16(w[0], quads, w[1]), bytes));
        }
        V const worth = most / V(G::most_weight);
        (worth * V(Sign)).store_aligned(unit);
        sum = fold_rows<G::at_once>(sum, [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); });
        float* const l = x.l + g * G::W;
        simd::fma(simd::from_int(lanes<std::int32_t>(sum)), worth / V(largest), V::load_aligned(l)).store_aligned(l);
    }

    struct word_order {
        std::uint16_t word[32];
    };
    static constexpr word_order quads_of_words() noexcept {
        word_order order{};
        for (int i = 0; i < 32; ++i) {
            int const quad = i / 4, key = quad / G::at_once * 4 + i % 4, lane = key * G::at_once + quad % G::at_once;
            order.word[i] = static_cast<std::uint16_t>(2 * lane);
        }
        return order;
    }

    // Those of keys 4 i and on and row r, in every lane. Part 0 is high bytes.
    IMBREX_ALWAYS_INLINE static __m512i weight_bytes(std::uint8_t const* weights, index i, int r, int part) noexcept {
        index const of_keys = G::at_once == 1 ? (i & ~index{1}) * 8 + (i & 1) * 4 : i * 8 * G::at_once;
        std::int32_t four;
        __builtin_memcpy(&four, weights + of_keys + r / 2 * 16 + r % 2 * 4 + part * 8, sizeof four);
        return _mm512_set1_epi32(four);
    }

    // The chunk of columns at c: of values from memory, or as the first row group has left them in L1.
    template <bool FromMemory, class Rows>
    IMBREX_NOINLINE void add_columns(Rows const& values, index j, index n, int g, index c, float const* unit) const noexcept {
        fours_of_vectors<G::at_once> sum;
        IMBREX_UNROLL for (int r = 0; r < G::at_once; ++r) {
            IMBREX_UNROLL for (int i = 0; i < 4; ++i) sum[r][i] = _mm512_setzero_si512();
        }
        std::uint8_t const* const weights = x.weights;
        auto const add = [&](__m512i const(&v)[4], index i, int part) __attribute__((always_inline)) {
            IMBREX_UNROLL for (int r = 0; r < G::at_once; ++r) {
                __m512i const w = weight_bytes(weights, i, r, part);
                IMBREX_UNROLL for (int k = 0; k < 4; ++k) add_products(sum[r][k], w, v[k]);
            }
        };
        constexpr int low = 1, first = G::parts == 2 ? 0 : low;
        index const fours = (n + 3) / 4;
        std::int8_t* const kept = x.interleaved + c * keys_at_once;
        __mmask64 const there = first_bytes(head_dim - c);
        Rows const rows = values;    // copies, since stores of bytes may alias anything
        index const last = keys - 1;
        _Pragma("GCC unroll 1") for (index i = 0; i < fours; ++i) {
            __m512i v[4];
            if constexpr (FromMemory) {
                IMBREX_UNROLL for (int u = 0; u < 4; ++u) {
                    prefetch(rows.row(std::min(j + 4 * i + u + rows_ahead, last)) + c);
                    v[u] = _mm512_maskz_loadu_epi8(there, rows.row(j + std::min(4 * i + u, n - 1)) + c);
                }
                interleave_keys(v);
                if (G::parts == 2 || G::groups(x) > 1) store(v, kept + i * 4 * G::chunk);
            } else {
                load(kept + i * 4 * G::chunk, v);
            }
            add(v, i, first);
        }
        if constexpr (G::parts == 2) {
            IMBREX_UNROLL for (int r = 0; r < G::at_once; ++r) {
                IMBREX_UNROLL for (int k = 0; k < 4; ++k) sum[r][k] = _mm512_maskz_slli_epi32(all_lanes, sum[r][k], 8);
            }
            _Pragma("GCC unroll 1") for (index i = 0; i < fours; ++i) {
                __m512i v[4];
                load(kept + i * 4 * G::chunk, v);
                add(v, i, low);
            }
        }
        IMBREX_UNROLL for (int r = 0; r < G::at_once; ++r) {
            float* const o = x.o + (g * G::at_once + r) * o_stride() + c;
            IMBREX_UNROLL for (int k = 0; k < 4; ++k) {
                V const sums = simd::from_int(lanes<std::int32_t>(sum[r][k]));
                simd::fma(sums, V(unit[r]), V::load_aligned(o + k * G::W)).store_aligned(o + k * G::W);
            }
        }
    }
    static IMBREX_ALWAYS_INLINE void load(std::int8_t const* p, __m512i (&v)[4]) noexcept {
        IMBREX_UNROLL for (int k = 0; k < 4; ++k) v[k] = _mm512_load_si512(p + k * G::chunk);
    }
    static IMBREX_ALWAYS_INLINE void store(__m512i const (&v)[4], std::int8_t* p) noexcept {
        IMBREX_UNROLL for (int k = 0; k < 4; ++k) _mm512_store_si512(p + k * G::chunk, v[k]);
    }
};

IMBREX_ISA_END

#endif
