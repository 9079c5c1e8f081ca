// Block-sparse attention: which blocks of queries x keys count at all (as in FlexAttention: Dong et al. 2024, arXiv:2412.05496).
#pragma once

#include "imbrex/rules/full.hpp"
#include "imbrex/rules/operands.hpp"
#include "imbrex/rules/score_rows.hpp"
#include "imbrex/rules/token_ranges.hpp"

namespace imbrex {

// What an entry of a block mask may be. (The blocks of a boolean block mask are none or full.)
enum class block : std::uint8_t { none = 0, full = 1, partial = 2 };

// Query i of sequence b sees key j in head h as blocks (b, h, i / q_block, j / kv_block) says: not at all, in full, or, where it
// is partial, if `inner` lets it. Queries are counted from the first of the call.
//   blocks  (batch or 1, q_heads or 1, ceil(Sq / q_block) or 1, ceil(Sk / kv_block) or 1) of 0 (none), 1 (full) or 2 (partial)
template <score_mask Inner = full>
struct block_sparse {
    score_view<std::uint8_t const> blocks;
    index q_block;
    index kv_block;
    Inner inner;

    constexpr block_sparse(score_view<std::uint8_t const> b, index queries, index keys, Inner const& within = {}) noexcept
        : blocks{b}, q_block{queries}, kv_block{keys}, inner{within} {}

    template <class Ctx, class Q, class K>
    constexpr auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        index const offset = ctx.query_offset(), last = index{ctx.kv_len} - 1;
        auto const is = [&](block wanted) noexcept {
            return lanewise_mask(
                [&](auto i, auto j, auto h) noexcept { return at(ctx, h, i - offset, std::min<index>(j, last)) == wanted; }, q,
                kv, ctx.head());
        };
        auto const seen = [&](auto const& in_full, auto const& in_partial) noexcept {
            return mask_not(mask_and(mask_not(in_full), mask_not(mask_and(in_partial, inner.keep(ctx, q, kv)))));
        };
        using seen_in = decltype(is(block::full));
        if constexpr (is_lane_mask<seen_in>) {
            index const row = (first_of(q) - offset) / q_block * q_block, column = first_of(kv) / kv_block * kv_block;
            bool const one_head = !is_lanes<std::remove_cvref_t<decltype(ctx.head())>> || blocks.shape.heads == 1;
            if (one_head && column <= last && all_within(q, offset + row, offset + row + q_block) &&
                all_within(kv, column, column + kv_block)) {    // one block for all lanes
                block const b = at(ctx, first_of(ctx.head()), row, column);
                return seen(seen_in(b == block::full), seen_in(b == block::partial));
            }
        }
        return seen(is(block::full), is(block::partial));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        index const offset = ctx.query_offset(), q_first = w.q_first - offset, q_last = w.q_last - offset;
        return classify_rows(ctx, blocks.shape.heads, q_first / q_block, q_last / q_block, [&](index h, index row) noexcept {
            seen_so_far seen;
            for (index j = w.kv_begin; j < w.kv_end && !seen.mixed();) {
                index const end = std::min<index>(w.kv_end, (j / kv_block + 1) * kv_block);
                block const b = at(ctx, h, row * q_block, j);
                if (b == block::partial) {
                    seen.add(inner.classify(ctx, {static_cast<position>(offset + std::max(q_first, row * q_block)),
                                                  static_cast<position>(offset + std::min(q_last, (row + 1) * q_block - 1)),
                                                  static_cast<position>(j), static_cast<position>(end)}));
                } else {
                    seen.add(b == block::full ? coverage::full : coverage::none);
                }
                j = end;
            }
            return seen;
        });
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        index const offset = ctx.query_offset(), first_row = (q_first - offset) / q_block, last_row = (q_last - offset) / q_block;
        index const columns = (ctx.kv_len + kv_block - 1) / kv_block;
        index begin = columns, end = 0;
        index const heads = blocks.shape.heads == 1 ? 1 : ctx.head_count;
        for (index h = ctx.head_first; h < ctx.head_first + heads; ++h) {
            for (index row = first_row; row <= last_row; ++row) {
                auto const hidden = [&](index c) { return at(ctx, h, row * q_block, c * kv_block) == block::none; };
                index first = 0, last = columns;
                while (first < begin && hidden(first)) ++first;
                while (last > end && hidden(last - 1)) --last;
                begin = std::min(begin, first);
                end = std::max(end, last);
            }
        }
        index const last_key = std::min<index>(end * kv_block, ctx.kv_len);
        return {static_cast<position>(std::min(begin * kv_block, last_key)), static_cast<position>(last_key)};
    }
    constexpr status check(call_shape const& call) const noexcept {
        if (q_block < 1 || q_block > max_length) return operands::bad_value(rule_operand::block_mask, q_block, 0);
        if (kv_block < 1 || kv_block > max_length) return operands::bad_value(rule_operand::block_mask, kv_block, 1);
        call_shape const in_blocks{call.batch, call.q_heads, (call.q_tokens + q_block - 1) / q_block,
                                   (call.kv_tokens + kv_block - 1) / kv_block};
        if (status const s = operands::check_matrix(rule_operand::block_mask, blocks.data, blocks.shape, in_blocks); !s) {
            bool const counts_blocks = s.code() == errc::rule_axis && s.value(0) >= 2;
            return counts_blocks ? status{errc::rule_axis, s.value(0) + 2, s.value(1), s.value(2)} : s;
        }
        score_shape const& n = blocks.shape;
        for (index row = 0, at = 0; row < n.batch * n.heads * n.q_tokens; ++row) {
            for (index c = 0; c < n.kv_tokens; ++c, ++at) {
                std::uint8_t const b = blocks.at(row / (n.heads * n.q_tokens), row / n.q_tokens % n.heads, row % n.q_tokens, c);
                if (b > 2) return operands::bad_value(rule_operand::block_mask, b, at);
            }
        }
        return check_rule(inner, call);
    }

private:
    constexpr block at(head_context const& ctx, index h, index query, index key) const noexcept {
        return static_cast<block>(blocks.at(ctx.batch, h, query / q_block, key / kv_block));
    }
};

}    // namespace imbrex
