// The narrow unit: few query rows (decode), lanes along head_dim.
//
// Rows, up to R of them, are taken two at a time: a block of W / 2 keys against two rows fills W accumulators, which one shuffle
// tree turns into one vector of scores. K and V are read once from memory, row by row, in the element type
// they are stored in, and widened in registers; the passes for the other rows find the block in L1.
// Memory traffic a tile: kv_cols x (head_dim + head_dim_v) elements of kv; the rest stays in L1.
//
// Decision: two rows a pass, because what streams best is a first touch with little work per cache line: the out-of-order
// window then spans enough lines to keep memory busy. Four rows a pass with any software prefetch reach 50-66 % of the read
// bandwidth, two rows without reach 85-95 % (f32, 4 rows, D=128, 4 KB blocks, AMD Zen 4, g++ 12, 2026-11-30).
#pragma once

#include <algorithm>
#include <bit>

#include "imbrex/units/narrow_layout.hpp"
#include "imbrex/units/narrow_loads.hpp"
#include "imbrex/units/seen_keys.hpp"
#include "imbrex/units/softmax_rows.hpp"

IMBREX_ISA_BEGIN

// Rows that a pass takes, of those that there are.
// Numbers that take a byte at most cost more to widen than to load: a pass of four rows widens them half as often (10.3
// against 7.3 numbers a ns; f8_e4m3, 4 rows, D=128, AMD Zen 4, g++ 12, 2026-11-30).
template <class K, class E>
inline constexpr int narrow_rows_of_pass =
    bytes_per_value<K> == 1 && bytes_per_value<E> == 1 && accumulator_registers >= 16 ? 4 : 2;

// R: the most rows.
template <class P, class Rule, int R, row_set KeyRows = rows<typename P::key>, row_set ValueRows = rows<typename P::value>>
class narrow_unit {
public:
    using T = typename P::score;
    using K = typename P::key;
    using E = typename P::value;
    using row_type = row_block<typename P::query, typename P::output>;
    using tile_type = kv_tile<KeyRows, ValueRows>;
    static constexpr int W = lane_count<T>;

    // So many rows with those of padding.
    static constexpr index padded(index rows) noexcept { return (rows + at_once - 1) / at_once * at_once; }

    narrow_unit(narrow_scratch<T> const& scratch, Rule const& rule, head_context const& ctx, index head_dim, index head_dim_v,
                score_scale<T> const& scale) noexcept
        : x_{scratch}, rule_{rule}, ctx_{ctx}, head_dim_{head_dim}, head_dim_v_{head_dim_v}, scale_{scale} {}

    position q_first() const noexcept { return static_cast<position>(x_.positions[0]); }
    position q_last() const noexcept { return q_last_; }

    IMBREX_NOINLINE void begin(row_type const& r) noexcept {
        count_ = r.count;
        q_stride_ = narrow_scratch<T>::padded(head_dim_);
        o_stride_ = narrow_scratch<T>::padded(head_dim_v_);
        passes_ = static_cast<int>(padded(count_)) / at_once;
        std::fill_n(x_.q, rows() * q_stride_, T(0));
        std::fill_n(x_.o, rows() * o_stride_, T(0));
        for (index i = 0; i < rows(); ++i) {    // rows of padding repeat the last: a rule may look at their scores
            pack_query<K>(r.query(std::min(i, count_ - 1)), head_dim_, scale_.query, x_.q + i * q_stride_);
        }
        for (index row = 0; row < rows(); ++row) {
            index const of = std::min(row, count_ - 1);
            for (index i = row / at_once * W + row % at_once; i < (row / at_once + 1) * W; i += at_once) {
                x_.positions[i] = static_cast<lane_int<T>>(ctx_.query_offset() + r.token(of));
                x_.heads[i] = static_cast<lane_int<T>>(ctx_.head_first + r.head(of));
            }
        }
        q_last_ = static_cast<position>(ctx_.query_offset() + r.token(count_ - 1));
        std::fill_n(x_.m, passes_ * W, lowest_score<T>);
        std::fill_n(x_.l, rows(), T(0));
    }

    void score(tile_type const& tile, tile_window const& w, coverage seen) noexcept {
        score(tile, w, seen, {0, w.kv_end - w.kv_begin}, {});
    }
    void accumulate(tile_type const& tile) noexcept { accumulate(tile, {0, keys_}, {}); }

    // Whole blocks of scores and of values.
    index least_block() const noexcept { return std::max<index>(W, keys_of_step()); }

    IMBREX_NOINLINE_ALIGNED void score(tile_type const& tile, tile_window const& w, coverage seen, key_span const& some,
                                       rows_to_come<KeyRows> const& then) noexcept {
        keys_then_ = {then.rows, then.first - some.first, then.last, then.at_a_time};    // counted from the tile's first key
        if (some.first == 0) start_tile(tile, w, seen);
        index j = some.first;
        for (; j + block <= some.last; j += block) {
            with_run(tile.keys, j, block, [&](auto const& keys) {
                score_block<from_memory>(keys, j, 0, w);
                for (int p = 1; p < passes_; ++p) score_block<from_l1>(keys, j, p, w);
            });
        }
        if (j < some.last) score_rest(tile.keys.from(j), j, static_cast<int>(some.last - j), w);
        if (some.last == keys_) fold_maxima();
    }

    IMBREX_NOINLINE void absorb() noexcept {
        for (int p = 0; p < passes_; ++p) {
            alignas(64) array_of<T, W> alpha;
            exp2_of<T>(V::load_aligned(x_.m + p * W) - V::load_aligned(x_.m_next + p * W), scale_.log2e).store_aligned(alpha);
            std::copy_n(alpha, at_once, x_.alpha + p * at_once);
            std::copy_n(x_.m_next + p * W, W, x_.m + p * W);
            alignas(64) array_of<T, W> unused = {};    // l is summed key by key in accumulate, in the same order as o
            weigh_rows<T, 1>(x_.s + p * s_stride_, W, s_stride_ / W, scale_.log2e, x_.m + p * W, nullptr, unused);
        }
    }

    IMBREX_NOINLINE void accumulate(tile_type const& tile, key_span const& some, rows_to_come<ValueRows> const& then) noexcept {
        values_then_ = {then.rows, then.first - some.first, then.last, then.at_a_time};
        if (some.first == 0) {
            std::fill_n(x_.o_tile, rows() * o_stride_, T(0));
            std::fill_n(x_.l_tile, rows(), T(0));
            if constexpr (has_side_scales<ValueRows>) value_runs_ = scale_runs<T>::of(tile.values.group, head_dim_v_);
        }
        accumulate_keys(tile.values, some);
        if (some.last == keys_) add_tile();
    }

    // Instead of finish: leaves the state of the keys so far.
    IMBREX_NOINLINE void park(narrow_state<T> const& to) const noexcept {
        for (index i = 0; i < count_; ++i) {
            to.m[i] = maximum(i);
            to.l[i] = x_.l[i];
            std::copy_n(x_.o + i * o_stride_, o_stride_, to.o + i * o_stride_);
        }
    }

    // Takes in the state of other keys, as another tile.
    IMBREX_NOINLINE void add(narrow_state<T> const& part) noexcept {
        for (index i = 0; i < count_; ++i) {
            if (part.l[i] == T(0)) continue;    // no keys; NaN is not 0
            T const m = maximum(i), next = part.m[i] <= m ? m : part.m[i];
            V const alpha = exp2_of<T>(V(m) - V(next), scale_.log2e), beta = exp2_of<T>(V(part.m[i]) - V(next), scale_.log2e);
            for (index d = i * o_stride_; d < (i + 1) * o_stride_; d += W) {
                simd::fma(V::load_aligned(x_.o + d), alpha, V::load_aligned(part.o + d) * beta).store_aligned(x_.o + d);
            }
            x_.l[i] = simd::fma(V(x_.l[i]), alpha, V(part.l[i]) * beta).get(0);
            x_.m[i / at_once * W + i % at_once] = next;
        }
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept {
        for (index i = 0; i < count_; ++i) {
            row_context<position> const ctx{ctx_, static_cast<position>(ctx_.head_first + r.head(i))};
            row_end<T> const end = end_row<T>(rule_, ctx, scale_.natural, maximum(i), x_.l[i]);
            unpack_output<E>(x_.o + i * o_stride_, head_dim_v_, end.inverse, r.output(i));
            if (r.lse != nullptr) *r.log_sum_exp(i) = end.log_sum_exp();
        }
    }

private:
    using V = lanes<T>;
    using simd = seam<T>;
    static constexpr int at_once = std::min(R, narrow_rows_of_pass<K, E>);
    static constexpr int block = W / at_once;    // keys whose scores fill one vector
    // Keys side by side share the loads of q, of which one a cycle is the limit. Decision: the first pass, from memory, takes two
    // 16-bit rows together but f32 rows singly: two streams 512 bytes apart halve the read bandwidth (29 -> 10 GB/s), while for
    // bf16 it is 16 -> 23 GB/s (D=128, 4 rows, AMD Zen 4, g++ 12, 2026-11-30). Later passes, from L1: four, 33 -> 41 GB/s.
    static constexpr int from_memory = std::min(bytes_per_value<K> <= 2 ? 2 : 1, block);
    static constexpr int from_l1 = std::min(bytes_per_value<K> <= 2 ? 2 : 4, block);
    static constexpr int columns = accumulator_registers / at_once >= 8 ? 8 : 4;
    static constexpr index l1_block_bytes = 4096;    // of V, read from memory by the first pass and from L1 by the others

    index rows() const noexcept { return passes_ * at_once; }
    T maximum(index row) const noexcept { return x_.m[row / at_once * W + row % at_once]; }

    // Scores of a block of keys, at j of the tile, for the rows of pass p, and their maxima.
    template <int Side, row_set Keys>
    IMBREX_ALWAYS_INLINE void score_block(Keys const& keys, index j, int p, tile_window const& w) noexcept {
        array_of<V, W> acc;    // [key][row]
        IMBREX_UNROLL for (int i = 0; i < block; i += Side) multiply<Side>(keys, j, i, block, p, acc + i * at_once);
        take_scores(acc, j, block, p, w);
    }

    // Those of n < block keys, for all rows. Not unrolled: it compiles in a fifth of the time.
    IMBREX_NOINLINE void score_rest(KeyRows const& keys, index j, int n, tile_window const& w) noexcept {
        for (int p = 0; p < passes_; ++p) {
            array_of<V, W> acc;
            std::fill_n(acc, W, V(T(0)));
            _Pragma("GCC unroll 1") for (int i = 0; i < n; i += from_l1) multiply<from_l1>(keys, j, i, n, p, acc + i * at_once);
            take_scores(acc, j, n, p, w);
        }
    }

    IMBREX_ALWAYS_INLINE void take_scores(array_of<V, W>& products, index j, int n, int p, tile_window const& w) noexcept {
        V const s = ruled(simd::sums(products), j, n, p, w);
        s.store_aligned(x_.s + p * s_stride_ + j * at_once);
        T* const m = x_.m_next + p * W;
        simd::max(V::load_aligned(m), s).store_aligned(m);
    }

    // Products of Side keys, from the i-th of the block on, and the rows of pass p. Keys beyond n repeat the last.
    template <int Side, row_set Keys>
    IMBREX_ALWAYS_INLINE void multiply(Keys const& keys, index j, int i, int n, int p, V* to) noexcept {
        T const* const q = x_.q + p * at_once * q_stride_;
        index const in_pairs = head_dim_ / (2 * W) * (2 * W);
        array_of<V, Side * at_once> acc;
        IMBREX_UNROLL for (int a = 0; a < Side * at_once; ++a) acc[a] = V(T(0));
        if (p == 0) {
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) keys_then_.ask_for(j + i + u, head_dim_);
        }
        array_of<K const*, Side> key;
        [[maybe_unused]] array_of<float const*, Side> scales;
        IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
            int const at = u == 0 ? i : std::min(i + u, n - 1);
            key[u] = keys.row(at);
            if constexpr (has_side_scales<Keys>) scales[u] = keys.scales(at).data;
        }
        _Pragma("GCC unroll 1") for (index d = 0; d < in_pairs; d += 2 * W) {
            array_of<V, at_once> q_low, q_high;
            IMBREX_UNROLL for (int r = 0; r < at_once; ++r) {
                q_low[r] = V::load_aligned(q + r * q_stride_ + d);
                q_high[r] = V::load_aligned(q + r * q_stride_ + d + W);
                if (Side > 1) q_low[r] = in_register<T>(q_low[r]), q_high[r] = in_register<T>(q_high[r]);
            }
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
                V low, high;
                if constexpr (has_side_scales<Keys>)
                    load_scaled_pair<T>(key[u], scales[u], key_runs_, d, low, high);
                else
                    load_row_pair<T>(key[u], d, low, high);
                low = in_register<T>(low), high = in_register<T>(high);
                IMBREX_UNROLL for (int r = 0; r < at_once; ++r) {
                    V& a = acc[u * at_once + r];
                    a = simd::fma(high, q_high[r], simd::fma(low, q_low[r], a));
                }
            }
        }
        for (index d = in_pairs; d < head_dim_; d += W) {
            IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
                V x;
                if constexpr (has_side_scales<Keys>)
                    x = load_scaled_upto<T>(key[u], scales[u], key_runs_, d);
                else if constexpr (in_pieces<K>)
                    x = load_row_upto<T>(key[u], d, head_dim_);
                else
                    x = load_upto<T>(key[u] + d, head_dim_ - d);
                IMBREX_UNROLL for (int r = 0; r < at_once; ++r) {
                    V& a = acc[u * at_once + r];
                    a = simd::fma(x, V::load_aligned(q + r * q_stride_ + d), a);
                }
            }
        }
        IMBREX_UNROLL for (int u = 0; u < Side; ++u) {
            V scale(T(1));
            if constexpr (has_side_scales<Keys>) {
                if (key_runs_.is == scale_runs<T>::kind::whole_rows) scale = V(static_cast<T>(*scales[u]));
            }
            IMBREX_UNROLL for (int r = 0; r < at_once; ++r) {
                V const a = acc[u * at_once + r];
                to[u * at_once + r] = has_side_scales<Keys> ? a * scale : a;
            }
        }
    }

    // Those products as the rule has them; -inf in the lanes beyond n keys.
    IMBREX_ALWAYS_INLINE V ruled(V product, index j, int n, int p, tile_window const& w) noexcept {
        if (!changes_scores<Rule> && seen_ == coverage::full && n == block) return finite_score<T>(product);
        return ruled_lane_by_lane(product, j, n, p, w);
    }
    IMBREX_NOINLINE V ruled_lane_by_lane(V product, index j, int n, int p, tile_window const& w) noexcept {
        using I = lanes<lane_int<T>>;
        row_context<I> const ctx{ctx_, I::load_aligned(x_.heads + p * W)};
        I const q = I::load_aligned(x_.positions + p * W);
        I const kv = n == block ? positions_from<T>(w.kv_begin + j, at_once) : last_positions(w.kv_begin + j, n);
        auto const there = positions_from<T>(0, at_once) < I(static_cast<lane_int<T>>(n));
        if (seen_ == coverage::full) {
            V const s = ruled_score<T, coverage::full>(rule_, ctx, scale_.product, product, q, kv);
            return xsimd::select(as_score_mask<T>(there), s, hidden_score<T>());
        }
        V s = ruled_score<T, coverage::partial>(rule_, ctx, scale_.product, product, q, kv);
        s = xsimd::select(as_score_mask<T>(there), s, hidden_score<T>());
        alignas(64) array_of<T, W> lane;
        s.store_aligned(lane);
        for (int i = 0; i < n * at_once; ++i) seen_keys_.add(j + i / at_once, !(lane[i] == -std::numeric_limits<T>::infinity()));
        return s;
    }

    // The positions of n < block keys; lanes beyond them repeat the last.
    static IMBREX_NOINLINE lanes<lane_int<T>> last_positions(index first, int n) noexcept {
        alignas(64) array_of<lane_int<T>, W> p;
        for (int i = 0; i < W; ++i) p[i] = static_cast<lane_int<T>>(first + std::min(i / at_once, n - 1));
        return lanes<lane_int<T>>::load_aligned(p);
    }

    void start_tile(tile_type const& tile, tile_window const& w, coverage seen) noexcept {
        keys_ = w.kv_end - w.kv_begin;
        s_stride_ = (keys_ + block - 1) / block * W;
        seen_ = seen;
        if constexpr (has_side_scales<KeyRows>) key_runs_ = scale_runs<T>::of(tile.keys.group, head_dim_);
        if (seen == coverage::partial) seen_keys_.reset(keys_);
        std::fill_n(x_.m_next, passes_ * W, lowest_score<T>);
    }

    // From a maximum per (key, row) lane to one per row, in every lane of that row.
    void fold_maxima() noexcept {
        for (index row = 0; row < rows(); ++row) {
            index const first = row / at_once * W + row % at_once, last = (row / at_once + 1) * W;
            T m = x_.m[first];
            for (index i = first; i < last; i += at_once)
                m = x_.m_next[i] <= m ? m : x_.m_next[i];    // a NaN among them may be lost here; its weight shows it
            for (index i = first; i < last; i += at_once) x_.m_next[i] = m;
        }
    }

    // So many rows of V stay in L1 while each pair of rows passes over them.
    index keys_of_step() const noexcept {
        auto const most = static_cast<std::size_t>(std::max<index>(4, l1_block_bytes / row_bytes<E>(head_dim_v_)));
        return static_cast<index>(std::bit_floor(most));
    }

    void accumulate_keys(ValueRows const& values, key_span const& some) noexcept {
        index const step = keys_of_step();
        for (index j = some.first; j < some.last; j += step) {
            index const n = std::min(step, some.last - j);
            if (seen_ == coverage::full) {
                accumulate_run(values, j, j + n);
            } else {
                seen_keys_.for_each(j, j + n, [&](index first, index last) { accumulate_run(values, first, last); });
            }
        }
    }
    void accumulate_run(ValueRows const& values, index first, index last) noexcept {
        with_run(values, first, last - first, [&](auto const& run) { accumulate_block(run, first, last - first); });
    }

    template <row_set Values>
    void accumulate_block(Values const& values, index j, index n) noexcept {
        for (int p = 0; p < passes_; ++p) {
            index d = 0;
            for (; d + columns * W <= head_dim_v_; d += columns * W) accumulate_columns<columns>(values, j, n, p, d);
            for (; d + 2 * W <= head_dim_v_; d += 2 * W) accumulate_columns<2>(values, j, n, p, d);
            for (; d < head_dim_v_; d += W) accumulate_columns<1>(values, j, n, p, d);
        }
    }

    void add_tile() noexcept {
        for (index r = 0; r < rows(); ++r) {
            V const alpha(x_.alpha[r]);
            for (index d = r * o_stride_; d < (r + 1) * o_stride_; d += W) {
                simd::fma(V::load_aligned(x_.o + d), alpha, V::load_aligned(x_.o_tile + d)).store_aligned(x_.o + d);
            }
            x_.l[r] = simd::fma(V(x_.l[r]), alpha, V(x_.l_tile[r])).get(0);
        }
    }

    // o_tile[rows of pass p][d ... d + C W) += p v over n keys, at j of the tile; with the first columns, l_tile too.
    template <int C, row_set Values>
    IMBREX_NOINLINE_ALIGNED void accumulate_columns(Values const& values, index j, index n, int p, index d) noexcept {
        array_of<array_of<V, C>, at_once> acc;
        array_of<V, at_once> l;
        IMBREX_UNROLL for (int r = 0; r < at_once; ++r) {
            l[r] = V(T(0));
            IMBREX_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = V(T(0));
        }
        // Columns that the address of a row can skip: none where it lies in pieces, or has scales.
        constexpr bool from_start = in_pieces<E> || has_side_scales<Values>;
        index const skipped = from_start ? 0 : d;
        T const* weights = x_.s + p * s_stride_ + j * at_once;
        row_walk walk{values, 0};
        _Pragma("GCC unroll 1") for (index i = 0; i < n; ++i, ++walk, weights += at_once) {
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
            IMBREX_UNROLL for (int r = 0; r < at_once; ++r) {
                V weight(weights[r]);
                l[r] = l[r] + weight;
                if constexpr (has_side_scales<Values>) {
                    if (value_runs_.is == scale_runs<T>::kind::whole_rows) weight = weight * V(*scales);
                }
                IMBREX_UNROLL for (int c = 0; c < C; ++c) acc[r][c] = simd::fma(x[c], weight, acc[r][c]);
            }
        }
        T* const o = x_.o_tile + p * at_once * o_stride_ + d;
        IMBREX_UNROLL for (int r = 0; r < at_once; ++r) {
            if (d == 0) x_.l_tile[p * at_once + r] += l[r].get(0);
            IMBREX_UNROLL for (int c = 0; c < C; ++c) {
                T* const to = o + r * o_stride_ + c * W;
                (V::load_aligned(to) + acc[r][c]).store_aligned(to);
            }
        }
    }

    narrow_scratch<T> x_;
    Rule const& rule_;
    head_context const& ctx_;
    index head_dim_, head_dim_v_;
    score_scale<T> scale_;
    rows_to_come<KeyRows> keys_then_{};
    rows_to_come<ValueRows> values_then_{};
    scale_runs<T> key_runs_{}, value_runs_{};    // where there are scales beside the rows
    index q_stride_ = 0, o_stride_ = 0, s_stride_ = 0;
    index count_ = 0;
    int passes_ = 0;    // over keys and values, each for at_once rows
    index keys_ = 0;
    coverage seen_ = coverage::full;
    seen_keys seen_keys_;
    position q_last_ = 0;
};

IMBREX_ISA_END
