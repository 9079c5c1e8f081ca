// The narrow unit's products of bf16 and of eight-bit floats, which are bf16 too, where the processor has dot products of pairs
// of them (simd/pairs_avx512.hpp): of queries and keys as they lie, and of weights rounded to bf16 and values, two keys side by
// side: half the arithmetic of widened ones. By which o is divided is the sum of the rounded weights, so that values of 1 give 1;
// the log-sum-exp is that of those before.
//
// 32/8 heads, D=128, kv of 134 MB, % of the read bandwidth on huge and 4 KB pages: bf16 77-81 and 73-77, widened 57-67 and 65-73;
// f8 1.36 and 1.27 times the tokens/s of widened bf16 (AMD Zen 4, g++ 12, 2026-12-01). Sums of four rows in the quads of a
// vector, to which keys come by broadcasting loads, take fewer shuffles and gain nothing: such a load beside each product costs
// as much.
#pragma once

#include "imbrex/precision.hpp"
#include "imbrex/simd/pair_loads.hpp"
#include "imbrex/units/narrow_layout.hpp"

IMBREX_ISA_BEGIN

// What of the few rows' products is of pairs.
enum class in_pairs { nothing, keys, keys_and_values };

// Decision: not on Intel's cores with AMX, where 16 VDPBF16PS take 11.6 ns and 16 multiply-adds of half as many numbers 3.1
// (Emerald Rapids, 2026-12-01): decode of bf16 runs at 8.6 GB/s by pairs, at 10.2 widened.
#if defined(IMBREX_ON_AMX_CORES)
inline constexpr bool pairs_pay = false;
#else
inline constexpr bool pairs_pay = true;
#endif

template <class P>
inline constexpr bool keys_in_pairs =
    pairs_pay&& products_of<P> != products::widened&& std::is_same_v<typename P::query, bf16>&& loads_in_pairs<typename P::key>;
template <class P>
inline constexpr bool values_in_pairs =
    keys_in_pairs<P>&& std::is_same_v<typename P::output, bf16>&& loads_in_pairs<typename P::value>;
template <class P>
inline constexpr in_pairs narrow_pairs_of = values_in_pairs<P> ? in_pairs::keys_and_values
                                            : keys_in_pairs<P> ? in_pairs::keys
                                                               : in_pairs::nothing;

#if defined(IMBREX_HAS_BF16_PAIRS)

// Queries in pairs of columns, in the order that keys are loaded in.
template <class K>
struct key_pairs {
    using V = lanes<float>;
    using loads = pair_loads<K>;
    static constexpr int W = 16;
    static constexpr int vectors = loads::vectors;
    static constexpr index columns = 2 * W * vectors;    // of a step

    // Words from one packed query to the next.
    static constexpr index stride_of(index head_dim) noexcept { return (head_dim + columns - 1) / columns * columns / 2; }
    static IMBREX_NOINLINE void pack(bf16 const* query, index head_dim, float scale, float* to) noexcept {
        for (index d = 0; d < head_dim; d += columns) {
            for (int v = 0; v < vectors; ++v, to += W) {
                array_of<bf16, 2 * W> some = {};
                for (int w = 0; w < 2 * W; ++w) {
                    index const column = d + loads::column_of(v, w);
                    if (column >= head_dim) continue;    // a scale of 1, -1 or 0: exact
                    some[w] = scale == 1.0f ? query[column] : bf16(scale * to_float(query[column]));
                }
                bf16_pairs::load(some).store_aligned(to);
            }
        }
    }

    // acc[key x Rows + row] += q k of Side keys.
    template <int Rows, int Side>
    static IMBREX_ALWAYS_INLINE void multiply(array_of<K const*, Side> const& key, float const* q, index stride, index head_dim,
                                              array_of<V, Side * Rows>& acc) noexcept {
        index d = 0;
        _Pragma("GCC unroll 1") for (; d + columns <= head_dim; d += columns) {
            array_of<array_of<V, vectors>, Side> x;
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) loads::load(key[u] + d, x[u]);
            add<Rows, Side>(x, q + d / 2, stride, acc);
        }
        if (d < head_dim) {
            array_of<array_of<V, vectors>, Side> x;
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) loads::load_first(key[u] + d, head_dim - d, x[u]);
            add<Rows, Side>(x, q + d / 2, stride, acc);
        }
    }

private:
    template <int Rows, int Side>
    static IMBREX_ALWAYS_INLINE void add(array_of<array_of<V, vectors>, Side>& x, float const* q, index stride,
                                         array_of<V, Side * Rows>& acc) noexcept {
        IMBREX_UNROLL for (int v = 0; v < vectors; ++v) {
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) x[u][v] = in_register<float>(x[u][v]);
            IMBREX_UNROLL for (int r = 0; r < Rows; ++r) {
                V query = V::load_aligned(q + r * stride + v * W);
                if (Side > 1) query = in_register<float>(query);
                IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
                    acc[u * Rows + r] = bf16_pairs::dot(x[u][v], query, acc[u * Rows + r]);
                }
            }
        }
    }
};

// s: `vectors` of scores of Rows rows, which pairs of weights 2^(log2e (s - m)) take the place of: [pair of keys][row]. m: a
// vector of maxima. The sums of weights, rounded and not, are lane by lane.
template <int Rows>
IMBREX_NOINLINE void weigh_key_pairs(float* s, index vectors, float log2e, float const* m, float* rounded,
                                     float* exact) noexcept {
    using V = lanes<float>;
    constexpr int W = 16, together = 4;
    V const most = V::load_aligned(m);
    V sum(0.0f), exact_sum(0.0f);
    auto const weigh = [&]<int N>(float const* from, float* to, std::integral_constant<int, N>) {
        array_of<V, N> x;
        IMBREX_UNROLL for (int i = 0; i < N; ++i) x[i] = (V::load_aligned(from + i * W) - most) * V(log2e);
        bf16_pairs::exp2<N>(x);
        IMBREX_UNROLL for (int i = 0; i < N; ++i) {
            exact_sum = exact_sum + x[i];
            sum = sum + bf16_pairs::store_pairs<Rows>(to + i * W / 2, x[i]);
        }
    };
    index v = 0;
    for (; v + together <= vectors; v += together) weigh(s + v * W, s + v * W / 2, std::integral_constant<int, together>{});
    for (; v < vectors; ++v) weigh(s + v * W, s + v * W / 2, std::integral_constant<int, 1>{});
    sum.store_aligned(rounded), exact_sum.store_aligned(exact);
}

// Values of pairs of keys, two rows of them interleaved.
template <class E>
struct value_pairs {
    using V = lanes<float>;
    using loads = pair_loads<E>;
    static constexpr int W = 16;
    static constexpr int step = 2 * W * loads::vectors;    // columns of a load

    static constexpr index stride_of(index head_dim_v) noexcept { return (head_dim_v + step - 1) / step * step; }

    // o[Rows rows, a stride apart][C W columns] += p v of keys `some` of the tile, of which next(key) gives the values, one key
    // after another. weights: [pair][row] from the pair of the first key on. A key of a pair that is not among `some` has zeros,
    // which are at `nothing`. Whole: there are C W columns; else there is one load, of the columns left.
    template <int Rows, int C, bool Whole, class Next>
    static IMBREX_ALWAYS_INLINE void add(key_span const& some, float const* weights, index left, E const* nothing, float* o,
                                         index stride, Next const& next) noexcept {
        array_of<array_of<V, C>, Rows> acc;
        IMBREX_UNROLL for (int r = 0; r < Rows; ++r) { IMBREX_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = V(0.0f); }
        _Pragma("GCC unroll 1") for (index j = some.first & ~index{1}; j < some.last; j += 2, weights += Rows) {
            E const* const even = j < some.first ? nothing : next(j);
            E const* const odd = j + 1 < some.last ? next(j + 1) : nothing;
            array_of<V, C> x;
            IMBREX_UNROLL for (int c = 0; c < C; c += step / W) {
                array_of<V, loads::vectors> a, b;
                if constexpr (Whole) {
                    loads::load(even + c * W, a), loads::load(odd + c * W, b);
                } else {
                    loads::load_first(even, left, a), loads::load_first(odd, left, b);
                }
                IMBREX_UNROLL for (int v = 0; v < loads::vectors; ++v) {
                    bf16_pairs::interleave_quads(a[v], b[v]);
                    x[c + 2 * v] = a[v], x[c + 2 * v + 1] = b[v];
                }
            }
            IMBREX_UNROLL for (int r = 0; r < Rows; ++r) {
                V const weight = bf16_pairs::broadcast(reinterpret_cast<bf16 const*>(weights + r));
                IMBREX_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = bf16_pairs::dot(x[c], weight, acc[r][c]);
            }
        }
        IMBREX_UNROLL for (int r = 0; r < Rows; ++r) {
            IMBREX_UNROLL for (int c = 0; c < C; ++c) {
                float* const to = o + r * stride + c * W;
                (V::load_aligned(to) + acc[r][c]).store_aligned(to);
            }
        }
    }

    // output row = inverse * o[...].
    template <class O>
    static IMBREX_NOINLINE void unpack(float const* o, index head_dim_v, float inverse, O* to) noexcept {
        constexpr int n = step / W;
        for (index d = 0; d < head_dim_v; d += step) {
            array_of<V, n> x;
            IMBREX_UNROLL for (int i = 0; i < n; ++i) x[i] = V::load_aligned(o + d + i * W) * V(inverse);
            bf16_pairs::order_quads(x);
            for (int i = 0; i < n; ++i) {
                index const left = head_dim_v - d - i * W;
                if (left >= W) {
                    seam<float>::store(to + d + i * W, x[i]);
                } else if (left > 0) {
                    seam<float>::store_first(to + d + i * W, x[i], static_cast<int>(left));
                }
            }
        }
    }
};

#else

// There are none: their names stand in branches that are not taken.
template <class K>
struct key_pairs;
template <class E>
struct value_pairs;
template <int Rows>
void weigh_key_pairs(float* s, index vectors, float log2e, float const* m, float* rounded, float* exact) noexcept;

#endif

IMBREX_ISA_END
