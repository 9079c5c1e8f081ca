// A penalty on the distance between query and key, of another slope in each head.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "imbrex/rules/operands.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex {

// s = s - slopes[head] |q - kv| for positions q and kv: ALiBi, Press, Smith & Lewis 2022, arXiv:2108.12409. Under a causal mask
// this is the paper's; without one, keys after the query are penalised as those before it are. slopes: at least one finite number
// per query head.
struct alibi {
    static constexpr score_stage stage = score_stage::bias;

    std::span<float const> slopes;

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        S const ahead = as_score<S>(q - kv), distance = larger<S>(ahead, -ahead);
        return hidden_as<S>(s, multiply_add<S>(-gather<S>(slopes.data(), ctx.head()), distance, s));
    }

    constexpr status check(call_shape const& call) const noexcept {
        return operands::check_count(rule_operand::slopes, slopes.size(), call.q_heads);
    }
};

// The paper's slopes for this many heads: 2^(-8 i / n) for i = 1, 2, ... n where n, the number of heads, is a power of two. Else
// those of the power of two below, and then every other one of the power above, as in the authors' code. out: heads numbers; the
// first ones where it holds fewer.
inline void alibi_slopes(index heads, std::span<float> out) noexcept {
    index below = 1;
    while (2 * below <= heads) below *= 2;
    double const step = 8 / static_cast<double>(below);
    for (index h = 0; h < std::min(heads, static_cast<index>(out.size())); ++h) {
        double const i = static_cast<double>(h < below ? h + 1 : h - below) + (h < below ? 0 : 0.5);
        out[static_cast<std::size_t>(h)] = static_cast<float>(std::exp2(-step * i));
    }
}

}    // namespace imbrex
