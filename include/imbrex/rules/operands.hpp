// What the checks of rules share: complaints about a rule's tensors and spans.
#pragma once

#include <algorithm>
#include <span>

#include "imbrex/rule.hpp"
#include "imbrex/view.hpp"

namespace imbrex::operands {

constexpr status too_short(rule_operand what, index entries, index needed) noexcept {
    return {errc::rule_too_short, static_cast<std::int64_t>(what), entries, needed};
}
constexpr status bad_value(rule_operand what, std::int64_t value, index at) noexcept {
    return {errc::rule_value, static_cast<std::int64_t>(what), value, at};
}

constexpr status check_count(rule_operand what, std::size_t entries, index needed) noexcept {
    index const given = static_cast<index>(entries);
    return given >= needed ? status{} : too_short(what, given, needed);
}

// Entries of every sequence, each at least lowest and at most highest.
constexpr status check_per_sequence(rule_operand what, std::span<position const> values, call_shape const& call, index lowest,
                                    index highest) noexcept {
    if (status const s = check_count(what, values.size(), call.batch); !s) return s;
    for (index b = 0; b < call.batch; ++b) {
        position const value = values[static_cast<std::size_t>(b)];
        if (value < lowest || value > highest) return bad_value(what, value, b);
    }
    return {};
}

// Each axis is as long as the call's, or 1.
constexpr status check_axes(score_shape const& has, score_shape const& call) noexcept {
    index const own[] = {has.batch, has.heads, has.q_tokens, has.kv_tokens};
    index const needed[] = {call.batch, call.heads, call.q_tokens, call.kv_tokens};
    for (int axis = 0; axis < 4; ++axis) {
        if (own[axis] != needed[axis] && own[axis] != 1) return {errc::rule_axis, axis, own[axis], needed[axis]};
    }
    return {};
}

// A score matrix of an entry per sequence, query head, query and key.
constexpr status check_matrix(rule_operand what, void const* data, score_shape const& has, call_shape const& call) noexcept {
    score_shape const needed{call.batch, call.q_heads, call.q_tokens, call.kv_tokens};
    if (status const s = check_axes(has, needed); !s) return s;
    index const entries = has.batch * has.heads * has.q_tokens * has.kv_tokens;
    return data == nullptr && entries > 0 ? too_short(what, 0, entries) : status{};
}

// Sequence b's row of a span that holds a row for each, `stride` apart; with a stride of 0 all share one.
constexpr position const* row_of(std::span<position const> rows, index stride, index b) noexcept {
    return rows.data() + b * stride;
}

}    // namespace imbrex::operands
