// What masks share whose tokens fall into ranges, side by side, that see only themselves: chunks and packed documents.
// The range of a token is [begin, end); tokens that are in none have an empty one where they would be.
#pragma once

#include <limits>

#include "imbrex/mask.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex {

struct token_range {
    index begin = 0;
    index end = 0;
};

// Of keys [kv_begin, kv_end) against queries whose first is in `first` and whose last is in `last`. Exact.
constexpr coverage classify_ranges(token_range first, token_range last, tile_window const& w) noexcept {
    if (first.begin >= last.end || w.kv_end <= first.begin || w.kv_begin >= last.end) return coverage::none;
    return w.kv_begin >= last.begin && w.kv_end <= first.end ? coverage::full : coverage::partial;
}
constexpr kv_range bounds_of_ranges(token_range first, token_range last, index kv_len) noexcept {
    index const end = std::clamp<index>(last.end, 0, kv_len);
    return {static_cast<position>(std::clamp<index>(first.begin, 0, end)), static_cast<position>(end)};
}

}    // namespace imbrex

IMBREX_ISA_BEGIN

// Whether x is in [begin, end), in each lane.
template <class X>
IMBREX_ALWAYS_INLINE auto within(X const& x, index begin, index end) noexcept {
    using I = typename scalar_of<X>::type;
    constexpr index least = std::numeric_limits<position>::min(), most = std::numeric_limits<position>::max();
    I const first = static_cast<I>(std::clamp(begin, least, most)), last = static_cast<I>(std::clamp(end, least, most));
    return mask_and(x >= X(first), x < X(last));
}
template <class X>
IMBREX_ALWAYS_INLINE bool all_within(X const& x, index begin, index end) noexcept {
    if constexpr (is_lanes<X>) {
        return xsimd::all(within(x, begin, end));
    } else {
        return within(x, begin, end);
    }
}

// The first lane of lanes, or the number itself.
template <class X>
IMBREX_ALWAYS_INLINE index first_of(X const& x) noexcept {
    if constexpr (is_lanes<X>) {
        return static_cast<index>(x.get(0));
    } else {
        return static_cast<index>(x);
    }
}

// Whether kv is in the range that range_of(q) tells: one look-up for all lanes where their queries share a range.
template <class Q, class K, class F>
IMBREX_ALWAYS_INLINE auto keep_in_range(Q const& q, K const& kv, F const& range_of) noexcept {
    auto const one = [&](index i, index j) noexcept {
        token_range const r = range_of(i);
        return j >= r.begin && j < r.end;
    };
    using widest = std::conditional_t<is_lanes<Q>, Q, K>;
    if constexpr (is_lanes<widest>) {
        token_range const r = range_of(first_of(q));
        if (all_within(q, r.begin, r.end)) return within(widest(kv), r.begin, r.end);
    }
    return lanewise_mask([&](auto i, auto j, auto) noexcept { return one(i, j); }, q, kv, 0);
}

IMBREX_ISA_END
