// THE micro-kernel concept: a unit holds one tile of query rows and absorbs tiles of keys and values into it.
//
// Rows of a tile belong to one kv head: row r is the query of token r / group in head r % group of the heads that share that
// kv head (GQA), so that K and V are read once for the whole group. Decode is the same with few tokens.
//
//   begin(rows)            packs the queries and resets m, l and o
//   score(tile, w, seen)   s = q kT, masked where `seen` is partial, and the running maximum m
//   absorb()               p = e^(scale (s - m)), l += sum p, and the factor by which o must shrink
//   accumulate(tile)       o = factor * o + p v
//   finish(rows)           o / l and the log-sum-exp, to the caller's memory; 0 and -inf where l is 0
//
// A unit of few rows may besides park what it has of some keys, as a state, and add such states of others (split-KV).
//
// A unit may besides take the keys of a tile in blocks (block_unit), so that kv heads that lie side by side can be read as they
// lie. The first block of a tile starts it and the last one ends it.
//
// The unit clamps all edges: rows, keys and head_dim need be no multiple of anything, and nothing beyond them is read.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "imbrex/rows.hpp"
#include "imbrex/rule.hpp"
#include "imbrex/simd/elementwise.hpp"
#include "imbrex/workspace.hpp"

IMBREX_ISA_BEGIN

// The rows of one work item in the caller's memory. Strides in elements.
template <class Q, class O>
struct row_block {
    Q const* q = nullptr;    // token 0, first head of the group
    O* out = nullptr;
    float* lse = nullptr;    // may be null
    index q_token = 0, q_head = 0;
    index out_token = 0, out_head = 0;
    index lse_token = 0, lse_head = 0;
    index group = 1;
    index first = 0;    // of count rows
    index count = 0;

    // Without GQA no division: it would be a tenth of the time of a short sequence.
    index token(index r) const noexcept { return group == 1 ? first + r : (first + r) / group; }
    index head(index r) const noexcept { return group == 1 ? 0 : (first + r) % group; }
    Q const* query(index r) const noexcept { return q + (token(r) * q_token + head(r) * q_head); }
    O* output(index r) const noexcept { return out + (token(r) * out_token + head(r) * out_head); }
    float* log_sum_exp(index r) const noexcept { return lse + (token(r) * lse_token + head(r) * lse_head); }
    // The same rows of query heads so many further on.
    row_block of_later_heads(index n) const noexcept {
        row_block b = *this;
        b.q += n * q_head;
        b.out += n * out_head;
        if (lse != nullptr) b.lse += n * lse_head;
        return b;
    }
    // n rows from row r on.
    row_block part(index r, index n) const noexcept {
        row_block b = *this;
        b.first += r;
        b.count = n;
        return b;
    }
};

// Asks for the queries of these rows, and for their outputs to be written.
template <class Q, class O>
IMBREX_NOINLINE void expect_rows(row_block<Q, O> const& rows, index head_dim, index head_dim_v) noexcept {
    index token = rows.token(0), head = rows.head(0);
    for (index r = 0; r < rows.count; ++r) {
        Q const* const q = rows.q + (token * rows.q_token + head * rows.q_head);
        O const* const out = rows.out + (token * rows.out_token + head * rows.out_head);
        for (index d = 0; d < head_dim; d += static_cast<index>(cache_line_bytes / sizeof(Q))) prefetch(q + d);
        for (index d = 0; d < head_dim_v; d += static_cast<index>(cache_line_bytes / sizeof(O))) prefetch_to_write(out + d);
        if (++head == rows.group) head = 0, ++token;
    }
    asm volatile("");    // g++ takes a function that only prefetches for one without effect, and leaves out its calls
}

// The same rows, asked for a line at a time between lines of arithmetic: a burst stalls for as long as memory takes (causal,
// D=128, f32, % of the FMA peak: S=512 83 -> 86, S=1024 87 -> 89; AMD Zen 4, g++ 12, 2026-12-01).
class rows_ahead {
public:
    rows_ahead() noexcept = default;
    template <class Q, class O>
    rows_ahead(row_block<Q, O> const& rows, index head_dim, index head_dim_v) noexcept
        : queries_{walk::of(rows.query(0), rows, rows.q_token, rows.q_head, head_dim)},
          outputs_{walk::of(rows.output(0), rows, rows.out_token, rows.out_head, head_dim_v)} {}

    // Of each of the two, so many lines.
    IMBREX_ALWAYS_INLINE void ask(int lines) noexcept {
        for (int i = 0; i < lines; ++i) queries_.ask(), outputs_.ask();
    }
    IMBREX_NOINLINE void ask_for_rest() noexcept {
        while (queries_.rows > 0 || outputs_.rows > 0) ask(1);
        asm volatile("");    // see expect_rows
    }

private:
    struct walk {
        std::byte const* row = nullptr;
        index rows = 0;
        index at = 0, bytes = 0;
        index to_next_head = 0, to_next_token = 0;    // from the last head of one
        index head = 0, group = 1;

        template <class E, class Q, class O>
        static walk of(E const* first, row_block<Q, O> const& r, index token_stride, index head_stride, index numbers) noexcept {
            constexpr auto size = static_cast<index>(sizeof(E));
            index const to_next_token = (token_stride - (r.group - 1) * head_stride) * size;
            return {reinterpret_cast<std::byte const*>(first),
                    r.count,
                    0,
                    numbers * size,
                    head_stride * size,
                    to_next_token,
                    r.head(0),
                    r.group};
        }
        IMBREX_ALWAYS_INLINE void ask() noexcept {
            if (rows == 0) return;
            prefetch(row + at);
            at += static_cast<index>(cache_line_bytes);
            if (at < bytes) return;
            at = 0;
            --rows;
            if (++head == group)
                head = 0, row += to_next_token;
            else
                row += to_next_head;
        }
    };

    walk queries_, outputs_;
};

template <class U>
concept attention_unit = requires(U& u, typename U::row_type const& r, typename U::tile_type const& t, tile_window const& w) {
    u.begin(r);
    { u.q_first() } -> std::same_as<position>;    // of the rows begun
    { u.q_last() } -> std::same_as<position>;
    u.score(t, w, coverage::full);
    u.absorb();
    u.accumulate(t);
    u.finish(r);
};

// Some keys of a tile, counted from its first.
struct key_span {
    index first = 0;
    index last = 0;
};

// Rows that are read next, where that is beyond the hardware's prefetchers: with each row that a unit reads it asks memory for
// one of them, or with every few rows for as many.
template <row_set Rows>
struct rows_to_come {
    Rows const* rows = nullptr;
    index first = 0;
    index last = 0;
    index at_a_time = 1;    // a power of two

    // Those that go with the n-th row that is read now.
    IMBREX_ALWAYS_INLINE void ask_for(index n, index numbers) const noexcept {
        using E = typename Rows::element;
        constexpr index line = static_cast<index>(64 / sizeof(E));
        if (first + n >= last || (n & (at_a_time - 1)) != 0) return;
        for (index j = first + n; j < std::min(first + n + at_a_time, last); ++j) {
            E const* const row = rows->row(j);
            for (index d = 0; d < row_units<E>(numbers); d += line) prefetch(row + d);
        }
    }
};

// score and accumulate of some keys of a tile, in their order; all blocks but the last have a multiple of least_block() keys.
// How a tile is cut does not change its bits.
template <class U>
concept block_unit = attention_unit<U> && requires(U& u, typename U::tile_type const& t, tile_window const& w, key_span some) {
    { u.least_block() } -> std::same_as<index>;
    u.score(t, w, coverage::full, some, {&t.keys, 0, 0, 1});
    u.accumulate(t, some, {&t.values, 0, 0, 1});
};

// m starts here, not at -inf, so that m - m is never NaN; no finite score is lower.
template <class T>
inline constexpr T lowest_score = std::numeric_limits<T>::lowest();

template <class T>
IMBREX_ALWAYS_INLINE lanes<T> hidden_score() noexcept {
    return lanes<T>(-std::numeric_limits<T>::infinity());
}

// Scores that overflow are held at the largest and lowest finite numbers: inf - inf would be NaN, and -inf means unseen.
template <class T>
IMBREX_ALWAYS_INLINE lanes<T> finite_score(lanes<T> s) noexcept {
    return seam<T>::at_least(lanes<T>(lowest_score<T>), seam<T>::at_most(lanes<T>(std::numeric_limits<T>::max()), s));
}

// Products of queries and keys as the rule has them: scaled, changed and masked, -inf where a query may not see its key.
template <class T, coverage Seen, class Rule, class Ctx, class Q, class K>
IMBREX_ALWAYS_INLINE lanes<T> ruled_score(Rule const& rule, Ctx const& ctx, T scale, lanes<T> product, Q const& q,
                                          K const& kv) noexcept {
    lanes<T> s = product;
    if constexpr (changes_scores<Rule>) {
        s = transformed(rule, ctx, finite_score<T>(s * lanes<T>(scale)), q, kv);
        s = seam<T>::at_most(lanes<T>(std::numeric_limits<T>::max()), s);    // -inf hides
    } else {
        s = finite_score<T>(s);
    }
    if constexpr (Seen == coverage::partial && masks_keys<Rule>) {
        using probe = probe_lanes;
        static_assert(
            requires(row_context<probe> const& c, probe const& p) { keeps(rule, c, p, p); },
            "imbrex: the rule's keep takes a mask over lanes for one bool, as `if` and ?: do; write select, mask_and or "
            "lanewise_mask");
        auto const keep = as_lane_mask<T>(keeps(rule, ctx, q, kv));
        s = xsimd::select(as_score_mask<T>(keep), s, hidden_score<T>());
    }
    return s;
}

// What a finished row needs: the factor that normalises its o, and the logarithm of the sum of its weights.
template <class T>
struct row_end {
    T inverse = T(0);
    double top = 0;
    double sum = 0;    // e^top sum is the sum of the weights

    // Of a row with maximum m and sum l = sum e^(scale (s - m)).
    static row_end of(double scale, T m, T l) noexcept {
        return {l == T(0) ? T(0) : T(1) / l, scale * static_cast<double>(m), static_cast<double>(l)};
    }
    // Held at the largest and lowest floats: -inf is for rows without keys.
    float log_sum_exp() const noexcept {
        if (sum == 0) return -std::numeric_limits<float>::infinity();
        constexpr double most = std::numeric_limits<float>::max();
        double const x = top + std::log(sum);
        return static_cast<float>(x < -most ? -most : x > most ? most : x);    // NaN stays
    }
};

// The same with the rule's sinks: each is the logit of one more key, without a value.
template <class T, class Rule>
row_end<T> end_row(Rule const& rule, row_context<position> const& ctx, double scale, T m, T l) noexcept {
    row_end<T> end = row_end<T>::of(scale, m, l);
    if constexpr (!adds_sink<Rule>) return end;
    double sum = end.sum, top = sum == 0 ? -std::numeric_limits<double>::infinity() : end.top;
    double factor = 1;    // of o and l, as the maximum grows
    for_each_sink(rule, ctx, [&](double logit) {
        if (logit <= -std::numeric_limits<double>::infinity()) return;
        double const next = logit <= top ? top : logit;
        double const shrink = std::exp(top - next);
        sum = sum * shrink + std::exp(logit - next);
        factor *= shrink;
        top = next;
    });
    return {sum == 0 ? T(0) : static_cast<T>(factor / sum), top, sum};
}

IMBREX_ISA_END
