// The rows of the narrow unit: their queries, maxima, sums and outputs, and what becomes of scores. What rules say is not known
// here, nor what queries and outputs are stored as, so that this is compiled once for all of them.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include "imbrex/units/narrow_pairs.hpp"
#include "imbrex/units/seen_keys.hpp"
#include "imbrex/units/softmax_rows.hpp"

IMBREX_ISA_BEGIN

// The most rows that a pass takes.
// Numbers that take a byte at most cost more to widen than to load: a pass of four rows widens them half as often (10.3
// against 7.3 numbers a ns; f8_e4m3, 4 rows, D=128, AMD Zen 4, g++ 12, 2026-11-30).
template <class K, class E>
inline constexpr int narrow_rows_of_pass =
    bytes_per_value<K> == 1 && bytes_per_value<E> == 1 && accumulator_registers >= 16 ? 4 : 2;

// R: the most rows. K, E: what keys and values are stored as.
template <class T, int R, class K, class E, in_pairs Pairs>
class narrow_rows {
public:
    static constexpr bool rounds_weights = Pairs == in_pairs::keys_and_values;
    static constexpr int W = lane_count<T>;

    // So many rows with those of padding.
    static constexpr index padded(index rows) noexcept {
        index const pass = rows_of_pass(rows);
        return (rows + pass - 1) / pass * pass;
    }

    position q_first() const noexcept { return static_cast<position>(x_.positions[0]); }
    position q_last() const noexcept { return q_last_; }

    IMBREX_NOINLINE void absorb() noexcept {
        for (int p = 0; p < passes_; ++p) {
            alignas(64) array_of<T, W> alpha;
            exp2_of<T>(V::load_aligned(x_.m + p * W) - V::load_aligned(x_.m_next + p * W), scale_.log2e).store_aligned(alpha);
            std::copy_n(alpha, at_once_, x_.alpha + p * at_once_);
            std::copy_n(x_.m_next + p * W, W, x_.m + p * W);
            if constexpr (rounds_weights) {
                with_pass([&](auto rows) { weigh_in_pairs<rows()>(p); });
            } else {
                alignas(64) array_of<T, W> unused = {};    // l is summed key by key in accumulate, in the same order as o
                weigh_rows<T, 1>(x_.s + p * s_stride_, W, s_stride_ / W, scale_.log2e, x_.m + p * W, nullptr, unused);
            }
        }
    }

    // Instead of finish: leaves the state of the keys so far.
    IMBREX_NOINLINE void park(narrow_state<T> const& to) const noexcept {
        for (index i = 0; i < count_; ++i) {
            to.m[i] = x_.m[lane_of(i)];
            to.l[i] = x_.l[i];
            if constexpr (rounds_weights) to.l_exact[i] = x_.l_exact[i];
            std::copy_n(x_.o + i * o_stride_, o_stride_, to.o + i * o_stride_);
        }
    }

    // Takes in the state of other keys, as another tile.
    IMBREX_NOINLINE void add(narrow_state<T> const& part) noexcept {
        for (index i = 0; i < count_; ++i) {
            if (part.l[i] == T(0)) continue;    // no keys; NaN is not 0
            T const m = x_.m[lane_of(i)], next = part.m[i] <= m ? m : part.m[i];
            V const alpha = exp2_of<T>(V(m) - V(next), scale_.log2e), beta = exp2_of<T>(V(part.m[i]) - V(next), scale_.log2e);
            for (index d = i * o_stride_; d < (i + 1) * o_stride_; d += W) {
                simd::fma(V::load_aligned(x_.o + d), alpha, V::load_aligned(part.o + d) * beta).store_aligned(x_.o + d);
            }
            x_.l[i] = simd::fma(V(x_.l[i]), alpha, V(part.l[i]) * beta).get(0);
            if constexpr (rounds_weights) x_.l_exact[i] = simd::fma(V(x_.l_exact[i]), alpha, V(part.l_exact[i]) * beta).get(0);
            x_.m[lane_of(i)] = next;
        }
    }

protected:
    using V = lanes<T>;
    using I = lanes<lane_int<T>>;
    using simd = seam<T>;
    static constexpr int most_at_once = std::min(R, narrow_rows_of_pass<K, E>);

    narrow_rows(narrow_scratch<T> const& scratch, index head_dim, index head_dim_v, score_scale<T> const& scale) noexcept
        : x_{scratch}, head_dim_{head_dim}, head_dim_v_{head_dim_v}, scale_{scale} {}

    template <class Q, class O>
    IMBREX_NOINLINE void begin_rows(row_block<Q, O> const& r, head_context const& ctx) noexcept {
        count_ = r.count;
        at_once_ = static_cast<int>(rows_of_pass(count_));
        log2_at_once_ = std::countr_zero(static_cast<unsigned>(at_once_));
        passes_ = static_cast<int>((count_ + at_once_ - 1) >> log2_at_once_);
        q_stride_ = query_words(head_dim_);
        o_stride_ = output_words(head_dim_v_);
        std::fill_n(x_.q, rows() * q_stride_, T(0));
        std::fill_n(x_.o, rows() * o_stride_, T(0));
        for (index row = 0; row < rows(); ++row) {    // rows of padding repeat the last: a rule may look at their scores
            index const of = std::min(row, count_ - 1);
            pack(r.query(of), x_.q + row * q_stride_);
            spread(x_.positions, row, static_cast<lane_int<T>>(ctx.query_offset() + r.token(of)));
            spread(x_.heads, row, static_cast<lane_int<T>>(ctx.head_first + r.head(of)));
        }
        q_last_ = static_cast<position>(ctx.query_offset() + r.token(count_ - 1));
        std::fill_n(x_.m, passes_ * W, lowest_score<T>);
        std::fill_n(x_.l, rows(), T(0));
        if constexpr (rounds_weights) {
            std::fill_n(x_.l_exact, rows(), T(0));
            std::fill_n(x_.no_value, narrow_scratch<T>::no_value_words, T(0));
        }
        int const shift = log2_at_once_;
        for (int i = 0; i < W; ++i) key_of_lane_[i] = static_cast<lane_int<T>>(i >> shift);
    }

    // f(how many rows a pass takes, as a compile-time constant)
    template <class F>
    IMBREX_ALWAYS_INLINE void with_pass(F const& f) const noexcept {
        if (at_once_ == most_at_once) {
            f(std::integral_constant<int, most_at_once>{});
        } else if (at_once_ == 1) {
            if constexpr (most_at_once > 1) f(std::integral_constant<int, 1>{});
        } else {
            if constexpr (most_at_once > 2) f(std::integral_constant<int, 2>{});
        }
    }

    index rows() const noexcept { return passes_ * at_once_; }
    index keys_of_vector() const noexcept { return W >> log2_at_once_; }    // whose scores fill one
    // The first lane of a row.
    index lane_of(index row) const noexcept { return (row >> log2_at_once_) * W + (row & (at_once_ - 1)); }

    // Lanes of n keys of a vector's.
    auto are_there(int n) const noexcept { return I::load_aligned(key_of_lane_) < I(static_cast<lane_int<T>>(n)); }

    void start_tile(index keys) noexcept {
        keys_ = keys;
        s_stride_ = (keys * at_once_ + W - 1) / W * W;
        std::fill_n(x_.m_next, passes_ * W, lowest_score<T>);
    }

    // From a maximum per (key, row) lane to one per row, in every lane of that row.
    void fold_maxima() noexcept {
        with_pass([&](auto rows) {
            for (index row = 0; row < this->rows(); ++row) {
                T* const next = x_.m_next + lane_of(row);
                T m = x_.m[lane_of(row)];
                for (index i = 0; i < W; i += rows()) m = next[i] <= m ? m : next[i];    // a NaN among them may be lost here;
                for (index i = 0; i < W; i += rows()) next[i] = m;                       // its weight shows it
            }
        });
    }

    void clear_tile() noexcept {
        std::fill_n(x_.o_tile, rows() * o_stride_, T(0));
        std::fill_n(x_.l_tile, rows(), T(0));
    }
    void add_tile() noexcept {
        for (index r = 0; r < rows(); ++r) {
            V const alpha(x_.alpha[r]);
            for (index d = r * o_stride_; d < (r + 1) * o_stride_; d += W) {
                simd::fma(V::load_aligned(x_.o + d), alpha, V::load_aligned(x_.o_tile + d)).store_aligned(x_.o + d);
            }
            if constexpr (!rounds_weights) x_.l[r] = simd::fma(V(x_.l[r]), alpha, V(x_.l_tile[r])).get(0);
        }
    }

    narrow_scratch<T> x_;
    index head_dim_, head_dim_v_;
    score_scale<T> scale_;
    index q_stride_ = 0, o_stride_ = 0, s_stride_ = 0;
    index count_ = 0;
    int at_once_ = 1;    // rows of a pass: 1, 2 or 4
    int log2_at_once_ = 0;
    int passes_ = 0;    // over keys and values, each for at_once_ rows
    index keys_ = 0;    // of the tile
    coverage seen_ = coverage::full;
    seen_keys seen_keys_;
    position q_last_ = 0;
    alignas(64) array_of<lane_int<T>, W> key_of_lane_;    // of a vector of scores

private:
    static constexpr index query_words(index head_dim) noexcept {
        if constexpr (Pairs == in_pairs::nothing)
            return narrow_scratch<T>::padded(head_dim);
        else
            return key_pairs<K>::stride_of(head_dim);
    }
    static constexpr index output_words(index head_dim_v) noexcept {
        if constexpr (rounds_weights)
            return value_pairs<E>::stride_of(head_dim_v);
        else
            return narrow_scratch<T>::padded(head_dim_v);
    }
    template <class Q>
    void pack(Q const* query, T* to) const noexcept {
        if constexpr (Pairs == in_pairs::nothing)
            pack_query<K>(query, head_dim_, scale_.query, to);
        else
            key_pairs<K>::pack(query, head_dim_, scale_.query, to);
    }

    // Of pass p; takes in their sums too.
    template <int A>
    void weigh_in_pairs(int p) noexcept {
        alignas(64) array_of<float, W> rounded, exact;
        weigh_key_pairs<A>(x_.s + p * s_stride_, s_stride_ / W, scale_.log2e, x_.m + p * W, rounded, exact);
        for (int r = 0; r < A; ++r) {
            int const row = p * A + r;
            x_.l[row] *= x_.alpha[row], x_.l_exact[row] *= x_.alpha[row];
            for (int i = r; i < W; i += A) x_.l[row] += rounded[i], x_.l_exact[row] += exact[i];
        }
    }

    static constexpr index rows_of_pass(index rows) noexcept {
        return std::min<index>(static_cast<index>(std::bit_ceil(static_cast<std::size_t>(rows))), most_at_once);
    }
    // To all lanes of a row.
    void spread(lane_int<T>* to, index row, lane_int<T> x) const noexcept {
        to += lane_of(row);
        with_pass([to, x](auto rows) {
            for (index i = 0; i < W; i += rows()) to[i] = x;
        });
    }
};

IMBREX_ISA_END
