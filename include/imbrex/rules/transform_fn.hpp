// A score change of the caller's, as a lambda.
#pragma once

#include <concepts>
#include <type_traits>

#include "imbrex/rule.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex {

template <score_stage Stage, class F>
struct function_transform {
    static constexpr score_stage stage = Stage;

    F change;

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        return still_hidden<S>(s, change(ctx, s, q, kv));
    }
    constexpr coverage classify(head_context const&, tile_window const&) const noexcept { return coverage::partial; }
};

// s = change(ctx, s, q, kv), in the stage said: transform_fn(lambda), transform_fn<score_stage::cap>(lambda).
// The lambda takes numbers and lanes alike, so its parameters are auto: s is a float, a double or lanes of them; q, kv and
// ctx.head() are each an integer or lanes of integers; it returns a score of s's type. -inf hides the key from the query; a key
// that is hidden already stays so. gather, select, as_score and lanewise_score (simd/elementwise.hpp) work on both.
template <score_stage Stage = score_stage::bias, class F>
constexpr function_transform<Stage, F> transform_fn(F change) noexcept {
    using lane_context = row_context<lanes<std::int32_t>>;
    static_assert(
        std::is_invocable_r_v<float, F const&, row_context<position> const&, float, position, position> &&
            std::is_invocable_r_v<lanes<float>, F const&, lane_context const&, lanes<float>, lanes<std::int32_t>,
                                  lanes<std::int32_t>>,
        "imbrex: transform_fn takes f(ctx, s, q, kv) that returns the changed score, with auto parameters, so that each may "
        "be a number or lanes");
    return {change};
}

}    // namespace imbrex
