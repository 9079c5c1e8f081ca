// The entry points.
#pragma once

#include "imbrex/checked_call.hpp"
#include "imbrex/precision_of.hpp"
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"

IMBREX_ISA_BEGIN

namespace call_detail {

// What mask_fn could wrap, given as it is.
template <class Rule>
concept bare_function = !rule_part<Rule> && std::is_invocable_v<Rule const&, row_context<position> const&, position, position>;

}    // namespace call_detail

// Exact attention on a plan: out = softmax(scale q kT, where the rule lets a query see a key) v.
//   q    (batch, Sq, q_heads, head_dim), or packed_queries{(1, tokens, q_heads, head_dim), starts}
//   kv   dense_kv: keys (batch or 1, Sk, kv_heads, head_dim), values (batch or 1, Sk, kv_heads, head_dim_v); q_heads is a
//        multiple of kv_heads; a batch of dense keys is as many as there are sequences of queries, or 1. Or packed_kv, with
//        starts; paged_kv, with a block table; ring_kv; two_part_kv (their headers tell the shapes); or one of them in scaled_kv.
//        Any of them with either kind of queries
//   out  (batch, Sq, q_heads, head_dim_v), or (1, tokens, q_heads, head_dim_v) packed as the queries are. Tokens outside the
//        sequences are not written; nor are those of options.lse. It may share memory with no input, which is checked, and with
//        no tensor of a rule, which is not
// Sequences may have any lengths, 0 too; each has its own queries at the end of its own keys, and is `batch` to the rule.
// Scores, and with them the log-sum-exp, are as the rule changes them (rule.hpp), its sinks included.
// A query that may see no key gives 0, and a log-sum-exp of -inf (with a sink: its logit). A key that no query of the call may
// see is never used. A NaN in a key reaches only the queries that see it; a NaN or Inf in a value that some query sees may reach
// other rows of its tile. M says what products are computed by (products.hpp). An observer (observer.hpp) is told of the tiles of
// each work item. Errors: any misfit of shapes, strides, starts or memory; more than the plan's capacity; a missing or small
// workspace. Nothing is written then.
template <products M, class Queries, class Kv, class O, class Rule = full, class Observer = no_observer>
status attention(plan const& p, Queries const& q, Kv const& kv, tensor_view<O> out, Rule const& rule = {}, options const& o = {},
                 Observer&& observer = {}) {
    static_assert(!std::is_same_v<Rule, options>, "imbrex: the rule comes before the options; pass full{} for all keys");
    static_assert(!call_detail::bare_function<Rule>,
                  "imbrex: a lambda is no rule by itself; wrap it in mask_fn{...} or transform_fn(...)");
    static_assert(
        rule_part<Rule> || call_detail::bare_function<Rule>,
        "imbrex: the rule lacks keep(ctx, q, kv), which says as a bool or lanes of it whether q may see kv; nor has it a "
        "transform or a sink");
    static_assert(classifies<Rule>,
                  "imbrex: the rule lacks classify(head_context, tile_window); return coverage::partial if unsure");
    static_assert(!std::is_const_v<O>, "imbrex: the output view is of const elements; pass a view of writable ones");
    static_assert(tile_observer<Observer>,
                  "imbrex: the observer lacks item(tile_counts const&), which is told of each work item");
    using P = typename precision_of<Queries, Kv, O, M>::type;
    return call_detail::checked_call(p, call_detail::operands_of<P>(q, kv, out), rule, o, observer);
}
template <class Queries, class Kv, class O, class Rule = full, class Observer = no_observer>
status attention(plan const& p, Queries const& q, Kv const& kv, tensor_view<O> out, Rule const& rule = {}, options const& o = {},
                 Observer&& observer = {}) {
    return attention<products::as_stored>(p, q, kv, out, rule, o, observer);
}

// The plan that a call on these tensors makes for itself. Of packed sequences: for as many, as long as the longest.
template <products M, class Tiles = tuned_tiles, class Queries, class Kv, class O>
status plan_for(Queries const& q, Kv const& kv, tensor_view<O> out, plan& p) noexcept {
    using P = typename precision_of<Queries, Kv, O, M>::type;
    auto const x = call_detail::operands_of<P>(q, kv, out);
    if (status const s = check_call(call_detail::facts_of(x, {})); !s) return s;
    call_shape const call = call_detail::shape_of(x);
    problem shape{call.batch, call.q_tokens, call.kv_tokens, call.q_heads, x.kv.heads(), x.kv.head_dim(), x.kv.head_dim_v()};
    if (x.kv.lies_apart()) shape.layout = kv_layout::strided;
    if (!in_one_run<decltype(x.kv)>) shape.layout = kv_layout::paged;
    shape.kv_held = x.kv.sequences().most_held();
    return make_plan<P, Tiles>(shape, p);
}
template <class Tiles = tuned_tiles, class Queries, class Kv, class O>
status plan_for(Queries const& q, Kv const& kv, tensor_view<O> out, plan& p) noexcept {
    return plan_for<products::as_stored, Tiles>(q, kv, out, p);
}

// The same without a plan of the caller's; plans for just these tensors. See above for shapes, contract and errors.
template <products M, class Tiles = tuned_tiles, class Queries, class Kv, class O, class Rule = full,
          class Observer = no_observer>
status attention(Queries const& q, Kv const& kv, tensor_view<O> out, Rule const& rule = {}, options const& o = {},
                 Observer&& observer = {}) {
    plan p;
    if (status const s = plan_for<M, Tiles>(q, kv, out, p); !s) return s;
    return attention<M>(p, q, kv, out, rule, o, observer);
}
template <class Tiles = tuned_tiles, class Queries, class Kv, class O, class Rule = full, class Observer = no_observer>
status attention(Queries const& q, Kv const& kv, tensor_view<O> out, Rule const& rule = {}, options const& o = {},
                 Observer&& observer = {}) {
    return attention<products::as_stored, Tiles>(q, kv, out, rule, o, observer);
}

// Calls that lack something in the middle, which is told here.

template <class Queries, class Kv, class O>
status attention(plan const&, Queries const&, Kv const&, tensor_view<O>, options const&) {
    static_assert(sizeof(O) == 0, "imbrex: the rule comes before the options; pass full{} for all keys");
    return {};
}
template <class Queries, class Kv, class O>
status attention(Queries const&, Kv const&, tensor_view<O>, options const&) {
    static_assert(sizeof(O) == 0, "imbrex: the rule comes before the options; pass full{} for all keys");
    return {};
}
template <int Unsaid = 0>
status make_plan(problem const&, plan&) {
    static_assert(
        Unsaid != 0,
        "imbrex: a plan is for a precision; say make_plan<precision<Q, K, V, O>>(problem, plan), or let plan_for(q, kv, "
        "out, plan) find it");
    return {};
}

IMBREX_ISA_END
