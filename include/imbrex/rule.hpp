// The vocabulary of rules: what a query may see, how its scores change, and what else shares its softmax.
//
// A rule is a mask (mask.hpp), a transform, a sink, or several of them chained with `|`. Whatever the order of the chain, the
// order of effects is
//     s = scale q kT;  s = its scalings;  s = its caps;  s = its biases;  masked where a mask says no;  softmax, with the sink
// and within one kind it is the order of the chain. Several masks of a chain must all let a key through.
//
// Nothing is asked about queries or keys that the call has not: lanes beyond the last repeat it.
// transform(ctx, s, q, kv) returns the changed score; s, q, kv and ctx.head() are each a number or lanes. It may return -inf,
// which hides the key from the query; it must then have a classify that never says `full` for such a tile. A score that comes in
// as -inf is hidden already, and goes out as -inf (simd/elementwise.hpp: hidden_as).
// sink(ctx) returns a number: the logit of a key without a value that the rows of ctx.head() see besides (-inf: none).
// A transform that reads a tensor along keys may say `using stages_rows = void` and have
//     row<V>(ctx, q, kv, n)    its numbers for query q and keys kv + lane, n of them, as lanes V
// The wide unit then reads them a tile at a time, in the order they lie in, and hands them to transform in ctx.staged.
// check(call) returns a status: whether the rule's own tensors and spans fit a call of that shape.
#pragma once

#include "imbrex/mask.hpp"
#include "imbrex/status.hpp"

namespace imbrex {

// When a transform takes effect.
enum class score_stage { scale, cap, bias };

template <class R>
concept has_transform = requires(R const& rule, row_context<position> const& ctx, float s, position p) {
    { R::stage } -> std::convertible_to<score_stage>;
    { rule.transform(ctx, s, p, p) } -> std::convertible_to<float>;
};

template <class R>
concept has_sink = requires(R const& rule, row_context<position> const& ctx) {
    { rule.sink(ctx) } -> std::convertible_to<double>;
};

template <class A, class B>
struct chained;

template <class R>
inline constexpr bool is_chain = false;
template <class A, class B>
inline constexpr bool is_chain<chained<A, B>> = true;

template <class R>
concept rule_part = has_keep<R> || has_transform<R> || has_sink<R> || is_chain<R>;

// Two rules as one.
template <class A, class B>
struct chained {
    A a;
    B b;
};

template <rule_part A, rule_part B>
constexpr chained<A, B> operator|(A const& a, B const& b) noexcept {
    return {a, b};
}

// Whether a rule, or a part of it, has transforms, a mask, or a sink.
template <class R>
inline constexpr bool changes_scores = has_transform<R>;
template <class A, class B>
inline constexpr bool changes_scores<chained<A, B>> = changes_scores<A> || changes_scores<B>;

template <class R>
inline constexpr bool masks_keys = has_keep<R>;
template <class A, class B>
inline constexpr bool masks_keys<chained<A, B>> = masks_keys<A> || masks_keys<B>;

template <class R>
inline constexpr bool adds_sink = has_sink<R>;
template <class A, class B>
inline constexpr bool adds_sink<chained<A, B>> = adds_sink<A> || adds_sink<B>;

// How many parts of a rule have rows to stage. Only one can be.
template <class R>
inline constexpr int staged_parts = 0;
template <class R>
    requires requires { typename R::stages_rows; }
inline constexpr int staged_parts<R> = 1;
template <class A, class B>
inline constexpr int staged_parts<chained<A, B>> = staged_parts<A> + staged_parts<B>;

// Every mask of the rule has a classify.
template <class R>
inline constexpr bool classifies = has_classify<R> || !has_keep<R>;
template <class A, class B>
inline constexpr bool classifies<chained<A, B>> = classifies<A>&& classifies<B>;

template <class R>
concept score_rule = rule_part<R> && classifies<R>;

// softcap{..} | causal{..} && window{..} is (softcap{..} | causal{..}) && window{..} to C++.
template <rule_part A, rule_part B>
    requires(!has_keep<A> || !has_keep<B>)
constexpr A operator&&(A const& a, B const&) noexcept {
    static_assert(sizeof(A) == 0,
                  "imbrex: && joins masks, and | binds tighter; put the masks in parentheses: softcap{..} | (causal{..} && "
                  "window{..})");
    return a;
}
template <rule_part A, rule_part B>
    requires(!has_keep<A> || !has_keep<B>)
constexpr A operator||(A const& a, B const&) noexcept {
    static_assert(sizeof(A) == 0,
                  "imbrex: || joins masks, and | binds tighter; put the masks in parentheses: softcap{..} | (causal{..} || "
                  "prefix{..})");
    return a;
}

// The questions that the kernel and the units ask of any rule.

template <class R, class Ctx, class Q, class K>
IMBREX_ALWAYS_INLINE constexpr auto keeps(R const& rule, Ctx const& ctx, Q const& q, K const& kv) noexcept {
    if constexpr (is_chain<R>) {
        return mask_and(keeps(rule.a, ctx, q, kv), keeps(rule.b, ctx, q, kv));
    } else if constexpr (has_keep<R>) {
        return rule.keep(ctx, q, kv);
    } else {
        return true;
    }
}

template <class R>
constexpr coverage classify_of(R const& rule, head_context const& ctx, tile_window const& w) noexcept {
    if constexpr (is_chain<R>) {
        coverage const first = classify_of(rule.a, ctx, w);
        return first == coverage::none ? first : both(first, classify_of(rule.b, ctx, w));
    } else if constexpr (has_classify<R>) {
        return rule.classify(ctx, w);
    } else {
        return coverage::full;
    }
}

template <class A, class B>
constexpr kv_range kv_bounds_of(chained<A, B> const& rule, head_context const& ctx, position q_first, position q_last) noexcept {
    kv_range const x = kv_bounds_of(rule.a, ctx, q_first, q_last), y = kv_bounds_of(rule.b, ctx, q_first, q_last);
    return {std::max(x.begin, y.begin), std::min(x.end, y.end)};
}

template <score_stage Stage, class R, class Ctx, class S, class Q, class K>
IMBREX_ALWAYS_INLINE constexpr S transform_at(R const& rule, Ctx const& ctx, S const& s, Q const& q, K const& kv) noexcept {
    if constexpr (is_chain<R>) {
        return transform_at<Stage>(rule.b, ctx, transform_at<Stage>(rule.a, ctx, s, q, kv), q, kv);
    } else if constexpr (has_transform<R>) {
        if constexpr (R::stage != Stage) {
            return s;
        } else if constexpr (staged_parts<R> == 0) {
            Ctx own = ctx;
            own.staged = nullptr;    // another part's
            return rule.transform(own, s, q, kv);
        } else {
            return rule.transform(ctx, s, q, kv);
        }
    } else {
        return s;
    }
}

// The scaled score s of queries at q with keys at kv, as the rule changes it.
template <class R, class Ctx, class S, class Q, class K>
IMBREX_ALWAYS_INLINE constexpr S transformed(R const& rule, Ctx const& ctx, S const& s, Q const& q, K const& kv) noexcept {
    S const scaled = transform_at<score_stage::scale>(rule, ctx, s, q, kv);
    S const capped = transform_at<score_stage::cap>(rule, ctx, scaled, q, kv);
    return transform_at<score_stage::bias>(rule, ctx, capped, q, kv);
}

// The rows of the part that has some.
template <class V, class R>
V staged_row(R const& rule, row_context<position> const& ctx, position q, position kv, int n) noexcept {
    if constexpr (!is_chain<R>) {
        return rule.template row<V>(ctx, q, kv, n);
    } else if constexpr (staged_parts<decltype(rule.a)> > 0) {
        return staged_row<V>(rule.a, ctx, q, kv, n);
    } else {
        return staged_row<V>(rule.b, ctx, q, kv, n);
    }
}

// Calls f with the logit of each sink of the rule.
template <class R, class F>
constexpr void for_each_sink(R const& rule, row_context<position> const& ctx, F const& f) noexcept {
    if constexpr (is_chain<R>) {
        for_each_sink(rule.a, ctx, f);
        for_each_sink(rule.b, ctx, f);
    } else if constexpr (has_sink<R>) {
        f(static_cast<double>(rule.sink(ctx)));
    }
}

// The first complaint of a rule's parts about a call.
template <class R>
constexpr status check_rule(R const& rule, call_shape const& call) noexcept {
    if constexpr (is_chain<R>) {
        status const s = check_rule(rule.a, call);
        return s ? check_rule(rule.b, call) : s;
    } else {
        return check_parts(call, rule);
    }
}

}    // namespace imbrex
