// Scores held softly between -cap and cap.
#pragma once

#include <algorithm>
#include <limits>

#include "imbrex/rules/operands.hpp"
#include "imbrex/simd/elementwise.hpp"
#include "imbrex/simd/tanh.hpp"

namespace imbrex {

// s = cap tanh(s / cap), as in Gemma 2 (2024, arXiv:2408.00118). cap: between 2^-126 and 2^126.
// The error beyond that of a float's tanh, 2 ulp, is one rounding of s / cap and one of the product.
struct softcap {
    static constexpr score_stage stage = score_stage::cap;

    double cap;
    double reciprocal;

    constexpr explicit softcap(double c) noexcept : cap{c}, reciprocal{1 / c} {}

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const&, S const& s, Q const&, K const&) const noexcept {
        using T = typename scalar_of<S>::type;
        return hidden_as<S>(s, S(static_cast<T>(cap)) * imbrex::tanh(s * S(static_cast<T>(reciprocal))));
    }

    constexpr status check(call_shape const&) const noexcept {
        if (cap >= 0x1p-126 && cap <= 0x1p126) return {};
        std::int64_t const shown = cap != cap ? not_a_number : static_cast<std::int64_t>(std::clamp(cap, -1e18, 1e18));
        return operands::bad_value(rule_operand::softcap, shown, 0);
    }
};

}    // namespace imbrex
