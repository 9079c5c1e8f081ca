// Factors of the scores besides the call's scale: one per head, or one by the query's position.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "imbrex/rules/operands.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex {

// s = factors[head] s. factors: at least one finite number per query head.
struct head_scale {
    static constexpr score_stage stage = score_stage::scale;

    std::span<float const> factors;

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const& ctx, S const& s, Q const&, K const&) const noexcept {
        return hidden_as<S>(s, s * gather<S>(factors.data(), ctx.head()));
    }

    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_count(rule_operand::scales, factors.size(), call.q_heads);
    }
};

// s = factors[floor((q + 1) / step)] s for a query at position q: a temperature by length, in steps. Llama 4's is
//     factor n = 1 + strength ln(1 + n)        (step 8192, strength 0.1 in its Scout)
// which llama4_temperatures fills in. A query before position 0 (Sq > Sk, bottom-right) has factor 0 of the table.
// factors: at least Sk / step + 1 finite numbers. step: 1 or more.
// Decision: a table, not the formula: it costs no logarithm per vector of scores, and any temperature in steps fits.
// With step 1 there is one factor per position, e.g. Qwen's max(1, ln(q + 1) / ln(trained length)).
struct length_temperature {
    static constexpr score_stage stage = score_stage::scale;

    std::span<float const> factors;
    position step;

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const&, S const& s, Q const& q, K const&) const noexcept {
        auto const each = [this](auto p, auto, auto) noexcept { return at(p); };
        if constexpr (is_lanes<Q>) {
            using I = typename scalar_of<Q>::type;
            I const own = q.get(0), first = std::max<I>(own + 1, 0) / step * step - 1;
            auto const same = own >= 0 && xsimd::all(q >= Q(first)) && xsimd::all(q - Q(first) < Q(static_cast<I>(step)));
            if (!same) return hidden_as<S>(s, s * lanewise_score<S>(each, q, 0, 0));
            return hidden_as<S>(s, s * S(at(own)));
        } else {
            return hidden_as<S>(s, s * S(at(q)));
        }
    }

    constexpr status check(call_shape const& call) const noexcept {
        if (step < 1) return operands::bad_value(rule_operand::scales, step, 0);
        return operands::check_count(rule_operand::scales, factors.size(), call.kv_tokens / step + 1);
    }

private:
    constexpr float at(index q) const noexcept { return factors[static_cast<std::size_t>(std::max<index>(q + 1, 0) / step)]; }
};

// factor n = 1 + strength ln(1 + n), for as many n as out has.
inline void llama4_temperatures(double strength, std::span<float> out) noexcept {
    for (std::size_t n = 0; n < out.size(); ++n) out[n] = static_cast<float>(1 + strength * std::log1p(static_cast<double>(n)));
}

}    // namespace imbrex
