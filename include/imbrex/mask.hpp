// The vocabulary of masks: which keys a query may see.
//
// keep(ctx, q, kv) is the definition: q, kv and ctx.head() are each a number or lanes of integers, and it returns a bool or a
// mask over those lanes. classify(ctx, window) and, optionally, kv_bounds(ctx, q_first, q_last) are shortcuts that must agree
// with it: `partial` and the whole range are always legal. Positions: key j is at j, query i at kv_len - q_len + i, so that the
// last query stands at the last key (bottom-right).
//
// Masks combine with &&, || and !. What a combination skips follows from what its parts skip.
#pragma once

#include <algorithm>
#include <concepts>
#include <type_traits>

#include "imbrex/status.hpp"

namespace imbrex {

enum class coverage { none, partial, full };

// What a rule may know of where it is asked: the sequence, and the query heads that share the kv head at hand.
struct head_context {
    index batch = 0;
    position q_len = 0;
    position kv_len = 0;
    position head_first = 0;
    position head_count = 1;

    constexpr position query_offset() const noexcept { return kv_len - q_len; }    // of query 0; negative when q_len > kv_len
};

// The same for given rows: their query head is a number, or lanes where rows of one tile differ in head (GQA).
template <class H>
struct row_context : head_context {
    H row_head{};
    void const* staged = nullptr;    // what the rule's staged part (rule.hpp) gave for these rows, in the scores' type

    constexpr row_context(head_context const& ctx, H h, void const* staged_scores = nullptr) noexcept
        : head_context{ctx}, row_head{h}, staged{staged_scores} {}
    constexpr H const& head() const noexcept { return row_head; }
};

// Queries at positions [q_first, q_last] against keys [kv_begin, kv_end).
struct tile_window {
    position q_first = 0;
    position q_last = 0;
    position kv_begin = 0;
    position kv_end = 0;
};

struct kv_range {
    position begin = 0;
    position end = 0;
};

template <class M>
concept has_keep = requires(M const& mask, row_context<position> const& ctx, position p) {
    { mask.keep(ctx, p, p) } -> std::convertible_to<bool>;
};

template <class M>
concept has_classify = requires(M const& mask, head_context const& ctx, tile_window const& w) {
    { mask.classify(ctx, w) } -> std::same_as<coverage>;
};

template <class M>
concept has_kv_bounds = requires(M const& mask, head_context const& ctx, position p) {
    { mask.kv_bounds(ctx, p, p) } -> std::same_as<kv_range>;
};

template <class M>
concept score_mask = has_keep<M> && has_classify<M>;

// What a rule's check is told of a call: the most that each axis reaches.
struct call_shape {
    index batch = 0;
    index q_heads = 0;
    index q_tokens = 0;     // of the longest sequence
    index kv_tokens = 0;    // likewise
};

template <class R>
concept has_check = requires(R const& rule, call_shape const& call) {
    { rule.check(call) } -> std::same_as<status>;
};

// The first complaint of these parts about a call.
template <class Part, class... Parts>
constexpr status check_parts(call_shape const& call, Part const& part, Parts const&... parts) noexcept {
    if constexpr (has_check<Part>) {
        if (status const s = part.check(call); !s) return s;
    } else {
        static_assert(
            !requires { &Part::check; },
            "imbrex: the rule's check must be const, take a call_shape and return an imbrex::status");
    }
    if constexpr (sizeof...(Parts) == 0) {
        return {};
    } else {
        return check_parts(call, parts...);
    }
}

// The keys that queries at positions [q_first, q_last] may see at most: the rule's own bounds, held to the keys there are.
template <class R>
constexpr kv_range kv_bounds_of(R const& rule, head_context const& ctx, position q_first, position q_last) noexcept {
    if constexpr (has_kv_bounds<R>) {
        kv_range const r = rule.kv_bounds(ctx, q_first, q_last);
        return {std::max<position>(r.begin, 0), std::min(r.end, ctx.kv_len)};
    } else {
        static_assert(
            !requires { &R::kv_bounds; },
            "imbrex: the rule's kv_bounds must be const, take (head_context, q_first, q_last) and return a kv_range");
        return {0, ctx.kv_len};
    }
}

// a and b where each is a bool or a mask over lanes.
template <class A, class B>
constexpr auto mask_and(A const& a, B const& b) noexcept {
    if constexpr (std::is_same_v<A, B>) {
        return a && b;
    } else if constexpr (std::is_same_v<A, bool>) {
        return B(a) && b;
    } else {
        return a && A(b);
    }
}
template <class A>
constexpr auto mask_not(A const& a) noexcept {
    return !a;
}

constexpr coverage both(coverage a, coverage b) noexcept {
    if (a == coverage::none || b == coverage::none) return coverage::none;
    return a == coverage::full && b == coverage::full ? coverage::full : coverage::partial;
}
constexpr coverage opposite(coverage c) noexcept {
    return c == coverage::none ? coverage::full : c == coverage::full ? coverage::none : coverage::partial;
}

// A query sees what both let it see.
template <score_mask A, score_mask B>
struct both_masks {
    A a;
    B b;

    template <class Ctx, class Q, class K>
    constexpr auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        return mask_and(a.keep(ctx, q, kv), b.keep(ctx, q, kv));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        coverage const first = a.classify(ctx, w);
        return first == coverage::none ? first : both(first, b.classify(ctx, w));
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        kv_range const x = kv_bounds_of(a, ctx, q_first, q_last), y = kv_bounds_of(b, ctx, q_first, q_last);
        return {std::max(x.begin, y.begin), std::min(x.end, y.end)};
    }
    template <class Call>
    constexpr auto check(Call const& call) const noexcept {
        return check_parts(call, a, b);
    }
};

// A query sees what either lets it see.
template <score_mask A, score_mask B>
struct either_mask {
    A a;
    B b;

    template <class Ctx, class Q, class K>
    constexpr auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        return mask_not(mask_and(mask_not(a.keep(ctx, q, kv)), mask_not(b.keep(ctx, q, kv))));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        return opposite(both(opposite(a.classify(ctx, w)), opposite(b.classify(ctx, w))));
    }
    constexpr kv_range kv_bounds(head_context const& ctx, position q_first, position q_last) const noexcept {
        kv_range const x = kv_bounds_of(a, ctx, q_first, q_last), y = kv_bounds_of(b, ctx, q_first, q_last);
        if (x.begin >= x.end) return y;
        if (y.begin >= y.end) return x;
        return {std::min(x.begin, y.begin), std::max(x.end, y.end)};
    }
    template <class Call>
    constexpr auto check(Call const& call) const noexcept {
        return check_parts(call, a, b);
    }
};

// A query sees what the mask hides from it.
template <score_mask A>
struct negated_mask {
    A a;

    template <class Ctx, class Q, class K>
    constexpr auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        return mask_not(a.keep(ctx, q, kv));
    }
    constexpr coverage classify(head_context const& ctx, tile_window const& w) const noexcept {
        return opposite(a.classify(ctx, w));
    }
    template <class Call>
    constexpr auto check(Call const& call) const noexcept {
        return check_parts(call, a);
    }
};

template <score_mask A, score_mask B>
constexpr both_masks<A, B> operator&&(A const& a, B const& b) noexcept {
    return {a, b};
}
template <score_mask A, score_mask B>
constexpr either_mask<A, B> operator||(A const& a, B const& b) noexcept {
    return {a, b};
}
template <score_mask A>
constexpr negated_mask<A> operator!(A const& a) noexcept {
    return {a};
}

}    // namespace imbrex
