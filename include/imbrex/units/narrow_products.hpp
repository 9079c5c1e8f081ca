// The narrow unit's products: of queries and keys, and of weights and values. Each is compiled once for all rules, and for all
// types of queries and outputs.
#pragma once

#include "imbrex/units/narrow_loads.hpp"
#include "imbrex/units/narrow_rows.hpp"

IMBREX_ISA_BEGIN

template <class T, int R, row_set KeyRows, row_set ValueRows, in_pairs Pairs>
class narrow_products : public narrow_rows<T, R, typename KeyRows::element, typename ValueRows::element, Pairs> {
public:
    using K = typename KeyRows::element;
    using E = typename ValueRows::element;
    using base = narrow_rows<T, R, K, E, Pairs>;
    using tile_type = kv_tile<KeyRows, ValueRows>;
    using base::W;

    // Whole blocks of scores and of values.
    index least_block() const noexcept { return std::max<index>(W, keys_of_step()); }

    IMBREX_NOINLINE void accumulate(tile_type const& tile, key_span const& some, rows_to_come<ValueRows> const& then) noexcept {
        values_then_ = {then.rows, then.first - some.first, then.last, then.at_a_time};
        if (some.first == 0) {
            this->clear_tile();
            if constexpr (has_side_scales<ValueRows>) value_runs_ = scale_runs<T>::of(tile.values.group, head_dim_v_);
        }
        this->with_pass([&](auto rows) { accumulate_keys<rows()>(tile.values, some); });
        if (some.last == keys_) this->add_tile();
    }

protected:
    using base::base;
    using base::head_dim_;
    using base::head_dim_v_;
    using base::keys_;
    using base::o_stride_;
    using base::passes_;
    using base::q_stride_;
    using base::s_stride_;
    using base::seen_;
    using base::seen_keys_;
    using base::x_;
    using typename base::simd;
    using typename base::V;

    // What products of queries and keys are left as: scores, held finite, of which m_next holds the maxima; or as they are, for a
    // rule to see.
    enum class left_as { scores, products };

    // To s, for some keys of the tile.
    void multiply_keys(tile_type const& tile, key_span const& some, rows_to_come<KeyRows> const& then, left_as what) noexcept {
        keys_then_ = {then.rows, then.first - some.first, then.last, then.at_a_time};    // counted from the tile's first key
        if constexpr (has_side_scales<KeyRows>) key_runs_ = scale_runs<T>::of(tile.keys.group, head_dim_);
        this->with_pass([&](auto rows) { multiply_blocks<rows()>(tile.keys, some, what); });
    }

private:
    // Keys whose scores fill one vector, where a pass takes A rows.
    template <int A>
    static constexpr int block = W / A;
    // Keys side by side share the loads of q, of which one a cycle is the limit. Decision: the first pass, from memory, takes two
    // 16-bit rows together but f32 rows singly: two streams 512 bytes apart halve the read bandwidth (29 -> 10 GB/s), while for
    // bf16 it is 16 -> 23 GB/s (D=128, 4 rows, AMD Zen 4, g++ 12, 2026-11-30). Later passes, from L1: four, 33 -> 41 GB/s. Of
    // bf16 in pairs it takes one, and later passes four (74 -> 82 % of the read bandwidth, 2026-12-01).
    static constexpr bool two_bytes_in_pairs = Pairs != in_pairs::nothing && bytes_per_value<K> == 2;
    template <int A>
    static constexpr int from_memory = std::min(bytes_per_value<K> <= 2 && !two_bytes_in_pairs ? 2 : 1, block<A>);
    template <int A>
    static constexpr int from_l1 = std::min(bytes_per_value<K> <= 2 && !two_bytes_in_pairs ? 2 : 4, block<A>);
    template <int A>
    static constexpr int columns = accumulator_registers / A >= 8 ? 8 : 4;
    static constexpr index l1_block_bytes = 4096;    // of V, read from memory by the first pass and from L1 by the others

    // Scales beside keys: one a row, or any. Blocks of those are not unrolled for one or two rows, which took g++ 12 3 s longer
    // to compile and is no faster (int8 in groups of 32, D=128: 2 to 5 % slower; for four rows 2 to 5 % faster, AVX2; AMD Zen 4,
    // 2026-12-01).
    enum class scales_are { of_rows, any };
    template <int A>
    static constexpr scales_are unrolled = A < 4 ? scales_are::of_rows : scales_are::any;

    template <int A>
    IMBREX_NOINLINE_ALIGNED void multiply_blocks(KeyRows const& all, key_span const& some, left_as what) noexcept {
        index j = some.first;
        if constexpr (has_side_scales<KeyRows> && unrolled<A> == scales_are::of_rows) {
            for (; key_runs_.is != scale_runs<T>::kind::whole_rows && j < some.last; j += block<A>)
                multiply_rest<A>(all.from(j), j, static_cast<int>(std::min<index>(block<A>, some.last - j)), what);
        }
        for (; j + block<A> <= some.last; j += block<A>) {
            with_run(all, j, block<A>, [&](auto const& keys) {
                multiply_block<A, from_memory<A>>(keys, j, 0, what);
                for (int p = 1; p < passes_; ++p) multiply_block<A, from_l1<A>>(keys, j, p, what);
            });
        }
        if (j < some.last) multiply_rest<A>(all.from(j), j, static_cast<int>(some.last - j), what);
    }

    // A block of keys, at j of the tile, and the rows of pass p.
    template <int A, int Side, row_set Keys>
    IMBREX_ALWAYS_INLINE void multiply_block(Keys const& keys, index j, int p, left_as what) noexcept {
        array_of<V, W> acc;    // [key][row]
        IMBREX_UNROLL for (int i = 0; i < block<A>; i += Side) {
            if (p == 0) {
                IMBREX_UNROLL for (int u = 0; u < Side; ++u) keys_then_.ask_for(j + i + u, head_dim_);
            }
            multiply<A, Side, unrolled<A>>(keys, i, block<A>, p, acc + i * A);
        }
        V const s = simd::sums(acc);
        take(what == left_as::scores ? finite_score<T>(s) : s, x_.s + p * s_stride_ + j * A, p, what);
    }

    // n keys, a block or fewer, and all rows. Not unrolled: it compiles in a fifth of the time.
    template <int A>
    IMBREX_NOINLINE void multiply_rest(KeyRows const& keys, index j, int n, left_as what) noexcept {
        constexpr int side = from_l1<A>;
        for (int i = 0; i < n; ++i) keys_then_.ask_for(j + i, head_dim_);
        for (int p = 0; p < passes_; ++p) {
            array_of<V, W> acc;
            int i = 0;
            _Pragma("GCC unroll 1") for (; i < n; i += side) multiply<A, side, scales_are::any>(keys, i, n, p, acc + i * A);
            std::fill(acc + i * A, acc + W, V(T(0)));
            V const s = xsimd::select(as_score_mask<T>(this->are_there(n)), finite_score<T>(simd::sums(acc)), hidden_score<T>());
            take(s, x_.s + p * s_stride_ + j * A, p, what);
        }
    }

    IMBREX_ALWAYS_INLINE void take(V s, T* to, int p, left_as what) noexcept {
        s.store_aligned(to);
        if (what == left_as::products) return;
        T* const m = x_.m_next + p * W;
        simd::max(V::load_aligned(m), s).store_aligned(m);
    }

    // Products of Side keys, from the i-th of the block on, and the rows of pass p. Keys beyond n repeat the last.
    template <int A, int Side, scales_are Scales, row_set Keys>
    IMBREX_ALWAYS_INLINE void multiply(Keys const& keys, int i, int n, int p, V* to) noexcept {
        T const* const q = x_.q + p * A * q_stride_;
        index const in_pairs = head_dim_ / (2 * W) * (2 * W);
        array_of<V, Side * A> acc;
        IMBREX_UNROLL for (int a = 0; a < Side * A; ++a) acc[a] = V(T(0));
        array_of<K const*, Side> key;
        [[maybe_unused]] array_of<float const*, Side> scales;
        IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
            int const at = u == 0 ? i : std::min(i + u, n - 1);
            key[u] = keys.row(at);
            if constexpr (has_side_scales<Keys>) scales[u] = keys.scales(at).data;
        }
        if constexpr (Pairs != in_pairs::nothing) {
            key_pairs<K>::template multiply<A, Side>(key, q, q_stride_, head_dim_, acc);
            IMBREX_UNROLL for (int a = 0; a < Side * A; ++a) to[a] = acc[a];
            return;
        }
        _Pragma("GCC unroll 1") for (index d = 0; d < in_pairs; d += 2 * W) {
            array_of<V, A> q_low, q_high;
            IMBREX_UNROLL for (int r = 0; r < A; ++r) {
                q_low[r] = V::load_aligned(q + r * q_stride_ + d);
                q_high[r] = V::load_aligned(q + r * q_stride_ + d + W);
                if (Side > 1) q_low[r] = in_register<T>(q_low[r]), q_high[r] = in_register<T>(q_high[r]);
            }
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
                V low, high;
                if constexpr (!has_side_scales<Keys>)
                    load_row_pair<T>(key[u], d, low, high);
                else if constexpr (Scales == scales_are::of_rows)
                    load_code_pair<T>(key[u], d, low, high);
                else
                    load_scaled_pair<T>(key[u], scales[u], key_runs_, d, low, high);
                low = in_register<T>(low), high = in_register<T>(high);
                IMBREX_UNROLL for (int r = 0; r < A; ++r) {
                    V& a = acc[u * A + r];
                    a = simd::fma(high, q_high[r], simd::fma(low, q_low[r], a));
                }
            }
        }
        for (index d = in_pairs; d < head_dim_; d += W) {
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
                V x;
                if constexpr (has_side_scales<Keys> && Scales == scales_are::any)
                    x = load_scaled_upto<T>(key[u], scales[u], key_runs_, d);
                else if constexpr (has_side_scales<Keys> || in_pieces<K>)
                    x = load_row_upto<T>(key[u], d, head_dim_);
                else
                    x = load_upto<T>(key[u] + d, head_dim_ - d);
                IMBREX_UNROLL for (int r = 0; r < A; ++r) {
                    V& a = acc[u * A + r];
                    a = simd::fma(x, V::load_aligned(q + r * q_stride_ + d), a);
                }
            }
        }
        IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
            V scale(T(1));
            if constexpr (has_side_scales<Keys>) {
                if (key_runs_.is == scale_runs<T>::kind::whole_rows) scale = V(static_cast<T>(*scales[u]));
            }
            IMBREX_UNROLL for (int r = 0; r < A; ++r) {
                V const a = acc[u * A + r];
                to[u * A + r] = has_side_scales<Keys> ? a * scale : a;
            }
        }
    }

    // So many rows of V stay in L1 while each pass goes over them.
    index keys_of_step() const noexcept {
        auto const most = static_cast<std::size_t>(std::max<index>(4, l1_block_bytes / row_bytes<E>(head_dim_v_)));
        return static_cast<index>(std::bit_floor(most));
    }

    template <int A>
    void accumulate_keys(ValueRows const& values, key_span const& some) noexcept {
        index const step = keys_of_step();
        for (index j = some.first; j < some.last; j += step) {
            index const n = std::min(step, some.last - j);
            if (seen_ == coverage::full) {
                accumulate_run<A>(values, j, j + n);
            } else {
                seen_keys_.for_each(j, j + n, [&](index first, index last) { accumulate_run<A>(values, first, last); });
            }
        }
    }
    template <int A>
    void accumulate_run(ValueRows const& values, index first, index last) noexcept {
        with_run(values, first, last - first, [&](auto const& run) { accumulate_block<A>(run, first, last - first); });
    }

    template <int A, row_set Values>
    void accumulate_block(Values const& values, index j, index n) noexcept {
        constexpr int C = columns<A>;
        for (int p = 0; p < passes_; ++p) {
            index d = 0;
            if constexpr (base::rounds_weights) {
                constexpr int step = value_pairs<E>::step;
                for (; d + C * W <= head_dim_v_; d += C * W) accumulate_pairs<A, C, true>(values, {j, j + n}, p, d);
                for (; d < head_dim_v_; d += step) accumulate_pairs<A, step / W, false>(values, {j, j + n}, p, d);
                continue;
            }
            for (; d + C * W <= head_dim_v_; d += C * W) accumulate_columns<A, C>(values, j, n, p, d);
            for (; d + 2 * W <= head_dim_v_; d += 2 * W) accumulate_columns<A, 2>(values, j, n, p, d);
            for (; d < head_dim_v_; d += W) accumulate_columns<A, 1>(values, j, n, p, d);
        }
    }

    // o_tile[rows of pass p][d ... d + C W) += p v over n keys, at j of the tile; with the first columns, l_tile too.
    template <int A, int C, row_set Values>
    IMBREX_NOINLINE_ALIGNED void accumulate_columns(Values const& values, index j, index n, int p, index d) noexcept {
        array_of<array_of<V, C>, A> acc;
        array_of<V, A> l;
        IMBREX_UNROLL for (int r = 0; r < A; ++r) {
            l[r] = V(T(0));
            IMBREX_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = V(T(0));
        }
        // Columns that the address of a row can skip: none where it lies in pieces, or has scales.
        constexpr bool from_start = in_pieces<E> || has_side_scales<Values>;
        index const skipped = from_start ? 0 : d;
        T const* weights = x_.s + p * s_stride_ + j * A;
        row_walk walk{values, 0};
        _Pragma("GCC unroll 1") for (index i = 0; i < n; ++i, ++walk, weights += A) {
            if (p == 0 && d == 0) values_then_.ask_for(j + i, head_dim_v_);
            E const* const value = from_start ? *walk : *walk + d;
            [[maybe_unused]] float const* scales = nullptr;
            if constexpr (has_side_scales<Values>) scales = values.scales(i).data;
            array_of<V, C> x;
            if constexpr (C == 1) {
                if constexpr (has_side_scales<Values>)
                    x[0] = load_scaled_upto<T>(value, scales, value_runs_, d);
                else
                    x[0] = load_row_upto<T>(value, d - skipped, head_dim_v_ - skipped);
            } else {
                IMBREX_UNROLL for (int c = 0; c < C; c += 2) {
                    V low, high;
                    if constexpr (has_side_scales<Values>)
                        load_scaled_pair<T>(value, scales, value_runs_, d + c * W, low, high);
                    else
                        load_row_pair<T>(value, d - skipped + c * W, low, high);
                    x[c] = in_register<T>(low), x[c + 1] = in_register<T>(high);
                }
            }
            IMBREX_UNROLL for (int r = 0; r < A; ++r) {
                V weight(weights[r]);
                l[r] = l[r] + weight;
                if constexpr (has_side_scales<Values>) {
                    if (value_runs_.is == scale_runs<T>::kind::whole_rows) weight = weight * V(*scales);
                }
                IMBREX_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = simd::fma(x[c], weight, acc[r][c]);
            }
        }
        T* const o = x_.o_tile + p * A * o_stride_ + d;
        IMBREX_UNROLL for (int r = 0; r < A; ++r) {
            if (d == 0) x_.l_tile[p * A + r] += l[r].get(0);
            IMBREX_UNROLL for (int c = 0; c < C; ++c) {
                T* const to = o + r * o_stride_ + c * W;
                (V::load_aligned(to) + acc[r][c]).store_aligned(to);
            }
        }
    }

    template <int A, int C, bool Whole, row_set Values>
    IMBREX_NOINLINE_ALIGNED void accumulate_pairs(Values const& values, key_span const& some, int p, index d) noexcept {
        row_walk walk{values, 0};
        auto const next = [&](index j) {
            if (p == 0 && d == 0) values_then_.ask_for(j, head_dim_v_);
            E const* const row = *walk + d;
            ++walk;
            return row;
        };
        float const* const weights = x_.s + p * s_stride_ + some.first / 2 * A;
        value_pairs<E>::template add<A, C, Whole>(some, weights, head_dim_v_ - d, reinterpret_cast<E const*>(x_.no_value),
                                                  x_.o_tile + p * A * o_stride_ + d, o_stride_, next);
    }

    rows_to_come<KeyRows> keys_then_{};
    rows_to_come<ValueRows> values_then_{};
    scale_runs<T> key_runs_{}, value_runs_{};    // where there are scales beside the rows
};

IMBREX_ISA_END
