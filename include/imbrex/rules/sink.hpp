// A learned logit per head that takes part in the softmax and has no value.
#pragma once

#include <ranges>
#include <span>
#include <type_traits>

#include "imbrex/dtype.hpp"
#include "imbrex/rules/operands.hpp"

namespace imbrex {

// The weights of a row of query head h become e^s / (e^logits[h] + sum e^s), as in gpt-oss (OpenAI 2025, arXiv:2508.10925). The
// logit is neither scaled nor changed by transforms, and counts once whatever the tiles; -inf means none. The log-sum-exp
// includes it. A row without keys gives 0 and a log-sum-exp of the logit. logits: at least one per query head, finite or -inf,
// of float, bf16, f16 or double.
template <element E>
struct sink_logits {
    std::span<E const> logits;

    template <class Ctx>
    constexpr double sink(Ctx const& ctx) const noexcept {
        return to_double(logits[static_cast<std::size_t>(ctx.head())]);
    }

    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_count(rule_operand::sink_logits, logits.size(), call.q_heads);
    }
};

template <std::ranges::contiguous_range R>
sink_logits(R const&) -> sink_logits<std::ranges::range_value_t<R>>;

}    // namespace imbrex
