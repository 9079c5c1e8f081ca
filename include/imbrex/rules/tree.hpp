// Speculative decoding: a tree of draft tokens over a shared prefix (SpecInfer: Miao et al. 2023, arXiv:2305.09781; Medusa: Cai
// et al. 2024, arXiv:2401.10774), without a matrix of queries x keys.
//
// Numbered depth first, the descendants of a token have the numbers [entry, exit) from its own on. So one token is the ancestor
// of another, or that token itself, when its interval holds the other's entry.
#pragma once

#include "imbrex/rules/operands.hpp"
#include "imbrex/rules/score_rows.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex {

// The last n keys, and the last queries, are draft tokens. Every query sees the keys before them; draft i sees draft j when j is
// i or an ancestor of i. Queries that come before the drafts see no draft; combine with causal where there are any.
//   entry, exit  [n] from number_tree, or (batch, tokens) for a tree per sequence
//   tokens       n; 0: one tree, of as many tokens as there are entries, serves all sequences
struct tree {
    std::span<position const> entry;
    std::span<position const> exit;
    index tokens = 0;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const& q, K const& kv) const noexcept {
        return lanewise_mask([&](auto i, auto j, auto) noexcept { return sees(ctx, i, j); }, q, kv, 0);
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        index const first = ctx.kv_len - count();
        if (w.kv_end <= first) return coverage::full;
        if (w.q_last < first) return w.kv_begin < first ? coverage::partial : coverage::none;
        seen_so_far seen;
        if (w.kv_begin < first) seen.add(coverage::full);
        if (w.q_first < first) seen.add(coverage::none);
        index const q_begin = std::max<index>(w.q_first, first), kv_begin = std::max<index>(w.kv_begin, first);
        for (index q = q_begin; q <= w.q_last && !seen.mixed(); ++q) {
            for (index kv = kv_begin; kv < w.kv_end; ++kv) seen.add(sees(ctx, q, kv) ? coverage::full : coverage::none);
        }
        return seen.result();
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position, position q_last) const noexcept {
        position const first = static_cast<position>(ctx.kv_len - count());
        return {0, q_last < first ? first : ctx.kv_len};
    }
    constexpr status check(call_shape const& call) const noexcept {
        index const n = count(), rows = tokens == 0 ? 1 : call.batch;
        if (n < 0 || n > call.kv_tokens) return operands::bad_value(rule_operand::tree, n, 0);
        for (std::span<position const> const numbers : {entry, exit}) {
            index const entries = static_cast<index>(numbers.size());
            if (entries < rows * n) return operands::too_short(rule_operand::tree, entries, rows * n);
        }
        for (index i = 0; i < rows * n; ++i) {
            position const in = entry[static_cast<std::size_t>(i)], out = exit[static_cast<std::size_t>(i)];
            if (in < 0 || in >= n) return operands::bad_value(rule_operand::tree, in, i);
            if (out <= in || out > n) return operands::bad_value(rule_operand::tree, out, i);
        }
        return {};
    }

private:
    constexpr index count() const noexcept { return tokens == 0 ? static_cast<index>(entry.size()) : tokens; }

    constexpr bool sees(head_context const& ctx, index q, index kv) const noexcept {
        index const first = ctx.kv_len - count();
        if (kv < first) return true;
        if (q < first || kv >= ctx.kv_len) return false;
        index const row = tokens == 0 ? 0 : ctx.batch * tokens;
        auto const number = [&](std::span<position const> of, index key) {
            return of[static_cast<std::size_t>(row + key - first)];
        };
        position const own = number(entry, q);
        return number(entry, kv) <= own && own < number(exit, kv);
    }
};

// Numbers a tree, or a forest, depth first from each token's parent: parents[i] < i, or -1 where token i follows the prefix
// itself. All three spans have one element per draft token.
constexpr status number_tree(std::span<position const> parents, std::span<position> entry, std::span<position> exit) noexcept {
    index const n = static_cast<index>(parents.size());
    for (std::span<position> const numbers : {entry, exit}) {
        index const entries = static_cast<index>(numbers.size());
        if (entries < n) return operands::too_short(rule_operand::tree, entries, n);
    }
    auto const parent_of = [&](index i) { return parents[static_cast<std::size_t>(i)]; };
    for (index i = 0; i < n; ++i) {
        if (parent_of(i) < -1 || parent_of(i) >= i) return operands::bad_value(rule_operand::tree, parent_of(i), i);
    }
    position *const in = entry.data(), *const out = exit.data();
    std::fill_n(out, n, 1);    // first the sizes of the subtrees
    for (index i = n - 1; i >= 0; --i) {
        if (parent_of(i) >= 0) out[parent_of(i)] += out[i];
    }
    position next_root = 0;    // then, of tokens already numbered, the number of their next child
    for (index i = 0; i < n; ++i) {
        position const size = out[i];
        position& next = parent_of(i) < 0 ? next_root : out[parent_of(i)];
        in[i] = next;
        next += size;
        out[i] = in[i] + 1;
    }
    return {};
}

}    // namespace imbrex
