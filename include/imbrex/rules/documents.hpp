// Documents packed into one sequence: a token sees its own document only. Combine with causal for language models.
#pragma once

#include "imbrex/rules/operands.hpp"
#include "imbrex/rules/token_ranges.hpp"

namespace imbrex {

// By ids: query at q sees key kv when segment_ids[q] = segment_ids[kv]. Ids are per position, nondecreasing, of any value;
// queries before the first key (more queries than keys) have none and see nothing.
//   segment_ids  [Sk], or (batch, Sk) with sequence b's at b * row_stride; a row_stride of 0 serves all sequences
struct documents {
    std::span<position const> segment_ids;
    index row_stride = 0;

    template <class Q, class K>
    constexpr auto keep(head_context const& ctx, Q const& q, K const& kv) const noexcept {
        position const* const ids = row(ctx);
        index const last = index{ctx.kv_len} - 1;
        return lanewise_mask(
            [ids, last](auto i, auto j, auto) noexcept { return i >= 0 && ids[i] == ids[std::min<index>(j, last)]; }, q, kv, 0);
    }
    // Exact: ids are sorted, so those of a stretch differ when its ends do.
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        if (w.q_last < 0) return coverage::none;
        position const* const ids = row(ctx);
        position const q_first = std::max<position>(w.q_first, 0), kv_last = w.kv_end - 1;
        if (kv_last < q_first && ids[kv_last] != ids[q_first]) return coverage::none;
        if (w.kv_begin > w.q_last && ids[w.kv_begin] != ids[w.q_last]) return coverage::none;
        bool const alike = ids[std::min(q_first, w.kv_begin)] == ids[std::max(w.q_last, kv_last)];
        return alike && w.q_first >= 0 ? coverage::full : coverage::partial;
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        if (q_last < 0) return {0, 0};
        position const *const ids = row(ctx), *const end = ids + ctx.kv_len;
        position const* const first = std::lower_bound(ids, end, ids[std::max<position>(q_first, 0)]);
        return {static_cast<position>(first - ids), static_cast<position>(std::upper_bound(first, end, ids[q_last]) - ids)};
    }
    constexpr status check(call_shape const& call) const noexcept {
        if (call.batch == 0 || call.kv_tokens == 0) return {};
        if (row_stride < 0 || row_stride > max_length) return operands::bad_value(rule_operand::segment_ids, row_stride, 0);
        index const rows = row_stride == 0 ? 1 : call.batch;
        index const entries = static_cast<index>(segment_ids.size()), needed = (rows - 1) * row_stride + call.kv_tokens;
        if (entries < needed) return operands::too_short(rule_operand::segment_ids, entries, needed);
        for (index b = 0; b < rows; ++b) {
            position const* const ids = operands::row_of(segment_ids, row_stride, b);
            position const* const sorted = std::is_sorted_until(ids, ids + call.kv_tokens);
            index const at = sorted - ids;
            if (at < call.kv_tokens) return operands::bad_value(rule_operand::segment_ids, *sorted, b * row_stride + at);
        }
        return {};
    }

private:
    constexpr position const* row(head_context const& ctx) const noexcept {
        return operands::row_of(segment_ids, row_stride, ctx.batch);
    }
};

// By starts, as cu_seqlens has them: document d is tokens [starts[d], starts[d + 1]), in every sequence of the batch. Tokens
// before the first and beyond the last start belong to no document: they see nothing, and nobody sees them.
//   starts  [documents + 1], nondecreasing, 0 or more and at most Sk
struct packed_documents {
    std::span<position const> starts;

    template <class Q, class K>
    constexpr auto keep(head_context const&, Q const& q, K const& kv) const noexcept {
        return keep_in_range(q, kv, [this](index p) noexcept { return document_of(p); });
    }
    constexpr coverage classify(head_context const&, tile_window const& w) const noexcept {
        return classify_ranges(document_of(w.q_first), document_of(w.q_last), w);
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        return bounds_of_ranges(document_of(q_first), document_of(q_last), ctx.kv_len);
    }
    constexpr status check(call_shape const& call) const noexcept {
        if (starts.empty()) return operands::too_short(rule_operand::sequence_starts, 0, 1);
        index lowest = 0;
        for (std::size_t d = 0; d < starts.size(); ++d) {
            if (starts[d] < lowest || starts[d] > call.kv_tokens) {
                return operands::bad_value(rule_operand::sequence_starts, starts[d], static_cast<index>(d));
            }
            lowest = starts[d];
        }
        return {};
    }

private:
    constexpr token_range document_of(index p) const noexcept {
        auto const next = std::upper_bound(starts.begin(), starts.end(), p);
        if (next == starts.begin()) return {starts.front(), starts.front()};
        if (next == starts.end()) return {starts.back(), starts.back()};
        return {*(next - 1), *next};
    }
};

}    // namespace imbrex
