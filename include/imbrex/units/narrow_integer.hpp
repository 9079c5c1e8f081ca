// The narrow unit of integers, on processors with VNNI: codes of keys and values are multiplied as they lie, never widened to
// floats. Few query rows (decode), as units/narrow.hpp. Two kinds of parts: for int8 with a scale per token and head
// (integer_scores.hpp, integer_values.hpp), and for q8_0, q4_0, and int8 and int4 with a scale for each group of a multiple of 32
// numbers (group_scores.hpp, group_values.hpp).
// Memory traffic a tile: kv_cols rows of keys and of values, and their scales; the rest stays in L1 and L2.
//
// A tile's keys and values have row(j), codes side by side, and their scales, for 0 <= j < kv_cols. Scales of any sign; a NaN
// scale or code of a key that no row sees is not used. Written out, with k, v codes:
//     s = (q_unit x q) k x key scale,    o = sum w v x w_unit,    w = round(p x value scale / w_unit)
//
// 32/8 heads, D=128, kv of 67 MB and more, times the tokens/s of widened bf16 on huge pages (4 KB pages): int8 with a scale a row
// 1.73 (1.58), by one byte 2.11 (1.96); q8_0 1.37 (1.22), q4_0 1.47 (1.36), int4 in groups of 32 1.42 (1.36), int8 in groups of
// 32 1.30 (1.19). AMD Zen 4, g++ 12, 2026-12-01.
#pragma once

#include "imbrex/products.hpp"
#include "imbrex/units/group_scores.hpp"
#include "imbrex/units/group_values.hpp"
#include "imbrex/units/integer_scores.hpp"
#include "imbrex/units/integer_values.hpp"
#include "imbrex/units/narrow_layout.hpp"
#include "imbrex/units/softmax_rows.hpp"

#if defined(IMBREX_HAS_INTEGER_UNITS)

IMBREX_ISA_BEGIN

// G, Queries, Values: the geometry and the parts, of which the unit is the frame.
template <class P, class Rule, class Tile, class G, class Queries, class Values>
class narrow_integer_unit {
public:
    using row_type = row_block<typename P::query, typename P::output>;
    using tile_type = Tile;

    narrow_integer_unit(integer_scratch const& scratch, Rule const& rule, head_context const& ctx, index head_dim,
                        index head_dim_v, score_scale<float> const& scale) noexcept
        : x_{scratch}, rule_{rule}, ctx_{ctx}, queries_{x_, head_dim}, values_{x_, head_dim_v}, scale_{scale} {}
    narrow_integer_unit(narrow_integer_unit const&) = delete;
    narrow_integer_unit& operator=(narrow_integer_unit const&) = delete;

    position q_first() const noexcept { return x_.positions[0]; }
    position q_last() const noexcept { return q_last_; }

    IMBREX_NOINLINE void begin(row_type const& r) noexcept {
        count_ = r.count;
        x_.groups = static_cast<int>((count_ + G::at_once - 1) / G::at_once);
        queries_.clear();
        values_.clear();
        std::fill_n(x_.o, rows() * values_.o_stride(), 0.0f);
        for (int row = 0; row < rows(); ++row) {    // rows of padding repeat the last: a rule may look at their scores
            index const of = std::min<index>(row, count_ - 1);
            queries_.pack(r.query(of), row, scale_.query);
            for (index i = lane_of(row); i < (row / G::at_once + 1) * W; i += G::at_once) {
                x_.positions[i] = static_cast<position>(ctx_.query_offset() + r.token(of));
                x_.heads[i] = static_cast<position>(ctx_.head_first + r.head(of));
            }
        }
        q_last_ = static_cast<position>(ctx_.query_offset() + r.token(count_ - 1));
        std::fill_n(x_.m, G::groups(x_) * W, lowest_score<float>);
        std::fill_n(x_.l, G::groups(x_) * W, 0.0f);
        std::fill_n(x_.l_rest, G::groups(x_) * W, 0.0f);
    }

    IMBREX_NOINLINE void score(tile_type const& tile, tile_window const& w, coverage seen) noexcept {
        keys_ = w.kv_end - w.kv_begin;
        s_stride_ = integer_scratch::four_vectors(keys_ * G::at_once);
        seen_ = seen;
        if (seen == coverage::partial) seen_keys_.reset(keys_);
        queries_.multiply(tile, keys_, s_stride_);
        array_of<V, most_groups> m;
        for (V& of_group : m) of_group = V(lowest_score<float>);
        index j = 0;
        for (; j + step <= keys_; j += step) {
            for (int g = 0; g < G::groups(x_); ++g) m[g] = simd::max(m[g], score_keys(tile, j, step, g, w));
        }
        if (j < keys_) {
            int const left = static_cast<int>(keys_ - j);
            for (int g = 0; g < G::groups(x_); ++g) m[g] = simd::max(m[g], score_keys(tile, j, left, g, w));
            j += step;
        }
        for (int g = 0; g < G::groups(x_); ++g) {
            for (index i = j * G::at_once; i < s_stride_; i += W) hidden_score<float>().store_aligned(x_.s + g * s_stride_ + i);
            fold_maximum(m[g], g);
        }
        values_.take_scales(tile.values, keys_, s_stride_, seen == coverage::partial ? &seen_keys_ : nullptr);
    }

    IMBREX_NOINLINE void absorb() noexcept {
        for (index i = 0; i < G::groups(x_) * W; i += W) {
            V const alpha = exp2_of<float>(V::load_aligned(x_.m + i) - V::load_aligned(x_.m_next + i), scale_.log2e);
            alpha.store_aligned(x_.alpha + i);
            V::load_aligned(x_.m_next + i).store_aligned(x_.m + i);
            (V::load_aligned(x_.l + i) * alpha).store_aligned(x_.l + i);
        }
        for (int g = 0; g < G::groups(x_); ++g) values_.weigh(g, scale_.log2e);
    }

    IMBREX_NOINLINE void accumulate(tile_type const& tile) noexcept {
        for (int row = 0; row < rows(); ++row) {
            V const alpha(x_.alpha[lane_of(row)]);
            float* const o = x_.o + row * values_.o_stride();
            for (index d = 0; d < values_.o_stride(); d += W) (V::load_aligned(o + d) * alpha).store_aligned(o + d);
        }
        values_.accumulate(tile.values);
    }

    // Instead of finish: leaves the state of the keys so far; its rows of o have o_stride() numbers.
    IMBREX_NOINLINE void park(narrow_state<float> const& to) const noexcept {
        values_.settle(count_);
        for (index i = 0; i < count_; ++i) {
            to.m[i] = x_.m[lane_of(i)];
            to.l[i] = sum_of_weights(i);
            std::copy_n(x_.o + i * values_.o_stride(), values_.o_stride(), to.o + i * values_.o_stride());
        }
    }

    // Takes in the state of other keys, as another tile. Only after begin: no weights of tiles may be there yet.
    IMBREX_NOINLINE void add(narrow_state<float> const& part) noexcept {
        for (index i = 0; i < count_; ++i) {
            if (part.l[i] == 0) continue;    // no keys; NaN is not 0
            float const m = x_.m[lane_of(i)], next = part.m[i] <= m ? m : part.m[i];
            V const alpha = exp2_of<float>(V(m) - V(next), scale_.log2e);
            V const beta = exp2_of<float>(V(part.m[i]) - V(next), scale_.log2e);
            for (index d = i * values_.o_stride(); d < (i + 1) * values_.o_stride(); d += W) {
                simd::fma(V::load_aligned(x_.o + d), alpha, V::load_aligned(part.o + d) * beta).store_aligned(x_.o + d);
            }
            x_.l[lane_of(i)] = simd::fma(V(x_.l[lane_of(i)]), alpha, V(part.l[i]) * beta).get(0);
            x_.m[lane_of(i)] = next;
        }
    }

    IMBREX_NOINLINE void finish(row_type const& r) noexcept {
        values_.settle(count_);
        for (index i = 0; i < count_; ++i) {
            row_context<position> const ctx{ctx_, static_cast<position>(ctx_.head_first + r.head(i))};
            row_end<float> const end = end_row<float>(rule_, ctx, scale_.natural, x_.m[lane_of(i)], sum_of_weights(i));
            write_output(x_.o + i * values_.o_stride(), end.inverse, r.output(i));
            if (r.lse != nullptr) *r.log_sum_exp(i) = end.log_sum_exp();
        }
    }

private:
    using V = lanes<float>;
    using simd = seam<float>;
    static constexpr index W = G::W;
    static constexpr int step = Queries::step;
    static constexpr int most_groups = G::at_once == 4 ? 2 : 1;

    int rows() const noexcept { return G::groups(x_) * G::at_once; }

    // The first lane of a row in its vector.
    static constexpr index lane_of(index row) noexcept { return row / G::at_once * W + row % G::at_once; }

    // Scores of n <= step keys from j, and their maxima.
    IMBREX_ALWAYS_INLINE V score_keys(tile_type const& tile, index j, int n, int g, tile_window const& w) noexcept {
        array_of<V, Queries::vectors> product;
        if constexpr (requires { queries_.products(j, n, g, s_stride_, product); })
            queries_.products(j, n, g, s_stride_, product);
        else
            queries_.products(tile, keys_, j, n, g, product);
        V most(lowest_score<float>);
        IMBREX_UNROLL for (int v = 0; v < Queries::vectors; ++v) {
            index const at = j + v * G::block;
            V s = hidden_score<float>();
            if (int const left = std::min(n - v * G::block, G::block); left > 0) {
                s = ruled(product[v], at, left, g, w);
            }
            s.store_aligned(x_.s + g * s_stride_ + at * G::at_once);
            most = simd::max(most, s);
        }
        return most;
    }

    // Those products as the rule has them; -inf in the lanes beyond n keys.
    IMBREX_ALWAYS_INLINE V ruled(V product, index j, int n, int g, tile_window const& w) noexcept {
        if (!changes_scores<Rule> && seen_ == coverage::full && n == G::block) return finite_score<float>(product);
        return ruled_lane_by_lane(product, j, n, g, w);
    }
    IMBREX_NOINLINE V ruled_lane_by_lane(V product, index j, int n, int g, tile_window const& w) noexcept {
        using I = lanes<std::int32_t>;
        row_context<I> const ctx{ctx_, I::load_aligned(x_.heads + g * W)};
        I const q = I::load_aligned(x_.positions + g * W);
        I const kv = n == G::block ? positions_from<float>(w.kv_begin + j, G::at_once) : last_positions(w.kv_begin + j, n);
        auto const there = positions_from<float>(0, G::at_once) < I(n);
        if (seen_ == coverage::full) {
            V const s = ruled_score<float, coverage::full>(rule_, ctx, scale_.product, product, q, kv);
            return xsimd::select(as_score_mask<float>(there), s, hidden_score<float>());
        }
        V s = ruled_score<float, coverage::partial>(rule_, ctx, scale_.product, product, q, kv);
        s = xsimd::select(as_score_mask<float>(there), s, hidden_score<float>());
        alignas(64) array_of<float, W> lane;
        s.store_aligned(lane);
        for (int i = 0; i < n * G::at_once; ++i) {
            seen_keys_.add(j + i / G::at_once, !(lane[i] == -std::numeric_limits<float>::infinity()));
        }
        return s;
    }

    // The positions of n < block keys; lanes beyond them repeat the last.
    static IMBREX_NOINLINE lanes<std::int32_t> last_positions(index first, int n) noexcept {
        alignas(64) array_of<std::int32_t, W> p;
        for (int i = 0; i < W; ++i) p[i] = static_cast<std::int32_t>(first + std::min(i / G::at_once, n - 1));
        return lanes<std::int32_t>::load_aligned(p);
    }

    // From a maximum per (key, row) lane to one per row, in every lane of that row.
    void fold_maximum(V tile_maximum, int g) noexcept {
        alignas(64) array_of<float, W> lane;
        tile_maximum.store_aligned(lane);
        for (index r = 0; r < G::at_once; ++r) {
            float m = x_.m[g * W + r];
            for (index i = r; i < W; i += G::at_once)
                m = lane[i] <= m ? m : lane[i];    // a NaN may be lost here; its weight shows it
            for (index i = r; i < W; i += G::at_once) x_.m_next[g * W + i] = m;
        }
    }

    float sum_of_weights(index row) const noexcept {
        float l = x_.l[lane_of(row)];
        for (index i = lane_of(row); i < (row / G::at_once + 1) * W; i += G::at_once) l += x_.l_rest[i];
        return l;
    }

    template <class O>
    void write_output(float const* o, float inverse, O* to) const noexcept {
        constexpr int n = Values::vectors_in_order;
        for (index c = 0; c < values_.head_dim; c += n * W) {
            V x[std::size_t{n}];
            for (int i = 0; i < n; ++i) x[i] = V::load_aligned(o + c + i * W) * V(inverse);
            Values::in_order(x);
            for (int i = 0; i < n; ++i) {
                index const d = c + i * W;
                if (d + W <= values_.head_dim) {
                    simd::store(to + d, x[i]);
                } else if (d < values_.head_dim) {
                    simd::store_first(to + d, x[i], static_cast<int>(values_.head_dim - d));
                }
            }
        }
    }

    integer_scratch x_;
    Rule const& rule_;
    head_context const& ctx_;
    Queries queries_;
    Values values_;
    score_scale<float> scale_;
    index count_ = 0;
    index keys_ = 0, s_stride_ = 0;
    coverage seen_ = coverage::full;
    seen_keys seen_keys_;
    position q_last_ = 0;
};

// How a policy rounds queries and weights. (Weights of group_values have 15 bits and a sign by any.)
template <class P>
inline constexpr integer_width integer_width_of =
    products_of<P> == products::eight_bit ? integer_width::one_byte : integer_width::two_bytes;

// For int8 keys and values with one scale a row. Of up to R rows.
template <class P, class Rule, int R, class Tile, integer_width Width = integer_width_of<P>,
          class G = integer_geometry<std::min(R, 4), Width>>
using narrow_int8_unit = narrow_integer_unit<P, Rule, Tile, G, integer_queries<G>, integer_values<G>>;

// For keys and values with a scale for each group, of 3 to 8 rows.
template <class P, class Rule, class Tile, integer_width Width = integer_width_of<P>, class G = integer_geometry<4, Width>>
using narrow_group_unit =
    narrow_integer_unit<P, Rule, Tile, G, group_queries<G, typename P::key>, group_values<G, typename P::value>>;

// Whether the few rows of int8 keys and values with one scale each are this unit's.
template <class P>
inline constexpr bool integer_unit =
    products_of<P> !=
    products::widened&& std::is_same_v<typename P::key, std::int8_t>&& std::is_same_v<typename P::value, std::int8_t>;

// Whether those of keys and values in groups may be.
template <class P>
inline constexpr bool group_unit = products_of<P> != products::widened&& grouped<typename P::key>&& grouped<typename P::value>;

IMBREX_ISA_END

#else

IMBREX_ISA_BEGIN

// There is none: its names stand in branches that are not taken.
template <class P>
inline constexpr bool integer_unit = false;
template <class P>
inline constexpr bool group_unit = false;

template <class P, class Rule, int R, class Tile>
class narrow_int8_unit;
template <class P, class Rule, class Tile>
class narrow_group_unit;

struct integer_scratch {
    static constexpr index padded(index n) noexcept { return n; }
    static integer_scratch lay_out(arena& memory, index rows, index head_dim, index head_dim_v, index kv_cols) noexcept;
};

template <class Rows>
bool in_groups(Rows const& rows, index head_dim) noexcept;

IMBREX_ISA_END

#endif
