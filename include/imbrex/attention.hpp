// The entry points.
#pragma once

#include "imbrex/call.hpp"
#include "imbrex/checks.hpp"
#include "imbrex/kv/packed.hpp"
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"

namespace imbrex {

// The precision that queries, kv and an output of these types have.
template <class Queries, class Kv, class O>
struct precision_of {
    static_assert(sizeof(Kv) == 0, "imbrex: keys and values are passed together, as dense_kv{k, v} or packed_kv{k, v, starts}");
};
template <class Q, class K, class V, class O>
struct precision_of_elements {
    static_assert(element<Q> && element<K> && element<V> && element<O>,
                  "imbrex: tensors hold float, double, imbrex::f16, imbrex::bf16, _Float16 or std::bfloat16_t; if 16-bit words "
                  "are bf16 or f16, say which with as_f16(p) or as_bf16(p)");
    using type = precision<std::remove_const_t<Q>, K, V, std::remove_const_t<O>>;
};
template <class Q, class K, class V, class O>
struct precision_of<tensor_view<Q>, dense_kv<K, V>, O> : precision_of_elements<Q, K, V, O> {};
template <class Q, class K, class V, class O>
struct precision_of<tensor_view<Q>, packed_kv<K, V>, O> : precision_of_elements<Q, K, V, O> {};
template <class Q, class Kv, class O>
struct precision_of<packed_queries<Q>, Kv, O> : precision_of<tensor_view<Q>, Kv, O> {};

}    // namespace imbrex

IMBREX_ISA_BEGIN

namespace call_detail {

template <class Q>
tensor_view<Q const> tokens_of(tensor_view<Q> const& q) noexcept {
    return {q.data, q.shape, q.strides};
}
template <class Q>
tensor_view<Q const> tokens_of(packed_queries<Q> const& q) noexcept {
    return q.tokens;
}

// Of queries, or of keys and values.
template <class Side>
packed_starts starts_of(Side const& side) noexcept {
    if constexpr (requires { side.starts; }) {
        return side.starts;
    } else {
        return {};
    }
}

template <precision_policy P, class Queries, class Kv, class O>
operands<P> operands_of(Queries const& q, Kv const& kv, tensor_view<O> out) noexcept {
    return {storage_view(tokens_of(q)), storage_view(kv.k), storage_view(kv.v), storage_view(out), {starts_of(q), starts_of(kv)}};
}

// The most that each axis of a call reaches.
template <precision_policy P>
call_shape shape_of(operands<P> const& x) noexcept {
    sequence_side const q{x.q.shape, x.packed.q}, kv{x.k.shape, x.packed.kv};
    return {q.sequences(), x.q.shape.heads, q.longest(), kv.longest()};
}

// Whether this scale is a finite T. False for NaN.
template <class T>
bool fits(double scale) noexcept {
    return std::abs(scale) <= static_cast<double>(std::numeric_limits<T>::max()) / 2;
}

// Whether the plan is for this call.
template <precision_policy P>
status check_plan(plan const& p, operands<P> const& x, call_shape const& call) noexcept {
    using enum tensor_role;
    if (!p.made()) return {errc::plan_not_made};
    std::string_view const dtypes[] = {dtype_name<typename P::query>(), dtype_name<typename P::key>(),
                                       dtype_name<typename P::value>(), dtype_name<typename P::output>()};
    for (int i = 0; i < 4; ++i) {
        if (p.dtypes[i] != dtypes[i]) return status{errc::plan_dtype, i};
    }
    if (p.isa != IMBREX_ISA_NAME) return status{errc::plan_isa};
    index const planned[] = {p.shape.q_heads, p.shape.kv_heads, p.shape.head_dim, p.shape.head_dim_v};
    index const actual[] = {x.q.shape.heads, x.k.shape.heads, x.q.shape.head_dim, x.v.shape.head_dim};
    for (int i = 0; i < 4; ++i) {
        if (planned[i] != actual[i]) return status{errc::plan_mismatch, i, actual[i], planned[i]};
    }
    if (call.batch > p.shape.batch) return {errc::over_batch, query, call.batch, p.shape.batch};
    if (call.q_tokens > p.shape.q_tokens) return {errc::over_capacity, query, call.q_tokens, p.shape.q_tokens};
    if (call.kv_tokens > p.shape.kv_tokens) return {errc::over_capacity, key, call.kv_tokens, p.shape.kv_tokens};
    return {};
}

// A call of any kind, and all that can be wrong with it.
template <precision_policy P, class Rule, class Observer>
status checked_call(plan const& p, operands<P> const& x, Rule const& rule, options const& o, Observer& observer) {
    tensor_facts const tensors[] = {tensor_facts::of(x.q), tensor_facts::of(x.k), tensor_facts::of(x.v), tensor_facts::of(x.out),
                                    o.lse.data == nullptr ? tensor_facts{} : tensor_facts::of(o.lse, x.q.shape)};
    auto const& [q, k, v, out, lse] = tensors;
    if (status const s = check_call(q, k, v, out, lse, x.packed); !s) return s;
    call_shape const shape = shape_of(x);
    if (status const s = check_plan(p, x, shape); !s) return s;
    if (o.scale && !fits<typename P::score>(*o.scale)) return {errc::scale_not_finite};
    if (status const s = check_rule(rule, shape); !s) return s;
    index const workers = o.executor.max_workers();
    if (workers < 1 || workers > max_workers) return {errc::no_workers, workers, max_workers};
    if (shape.batch == 0 || shape.q_tokens == 0 || shape.q_heads == 0) return {};
    std::size_t const bytes = workspace_bytes(p, workers);
    if (!o.workspace.may_allocate()) {
        std::size_t const given = o.workspace.data() == nullptr ? 0 : o.workspace.size();
        if (given < bytes) return {errc::workspace_too_small, static_cast<std::int64_t>(given), static_cast<std::int64_t>(bytes)};
        if (status const s = check_workspace(o.workspace.data(), bytes, tensors, x.packed); !s) return s;
    }
    call_memory const memory{o.workspace, bytes};
    if (memory.data() == nullptr) return status{errc::out_of_memory, static_cast<std::int64_t>(bytes)};
    attention_call<P, Rule, Observer>{p, x, rule, o, observer, workers, memory.data()}.run();
    return {};
}

}    // namespace call_detail

// Exact attention on a plan: out = softmax(scale q kT, where the rule lets a query see a key) v.
//   q    (batch, Sq, q_heads, head_dim), or packed_queries{(1, tokens, q_heads, head_dim), starts}
//   kv   dense_kv: keys (batch or 1, Sk, kv_heads, head_dim), values (batch or 1, Sk, kv_heads, head_dim_v); q_heads is a
//        multiple of kv_heads. Or packed_kv: keys and values (1, tokens, kv_heads, ...), and starts. With either kind of queries;
//        a batch of dense keys is then as many as there are sequences, or 1
//   out  (batch, Sq, q_heads, head_dim_v), or (1, tokens, q_heads, head_dim_v) packed as the queries are. Tokens outside the
//        sequences are not written; nor are those of options.lse. It may share memory with no input, which is checked, and with
//        no tensor of a rule, which is not
// Sequences may have any lengths, 0 too; each has its own queries at the end of its own keys, and is `batch` to the rule.
// Scores, and with them the log-sum-exp, are as the rule changes them (rule.hpp), its sinks included.
// A query that may see no key gives 0, and a log-sum-exp of -inf (with a sink: its logit). A key that no query of the call may
// see is never used. A NaN in a key reaches only the queries that see it; a NaN or Inf in a value that some query sees may reach
// other rows of its tile. An observer (observer.hpp) is told of the tiles of each work item. Errors: any misfit of shapes,
// strides, starts or memory; more than the plan's capacity; a missing or small workspace. Nothing is written then.
template <class Queries, class Kv, class O, class Rule = full, class Observer = no_observer>
status attention(plan const& p, Queries const& q, Kv const& kv, tensor_view<O> out, Rule const& rule = {}, options const& o = {},
                 Observer&& observer = {}) {
    static_assert(
        rule_part<Rule>,
        "imbrex: the rule lacks keep(ctx, q, kv), which says as a bool or lanes of it whether q may see kv; nor has it a "
        "transform or a sink");
    static_assert(classifies<Rule>,
                  "imbrex: the rule lacks classify(head_context, tile_window); return coverage::partial if unsure");
    static_assert(!std::is_const_v<O>, "imbrex: the output view is of const elements; pass a view of writable ones");
    static_assert(tile_observer<Observer>,
                  "imbrex: the observer lacks item(tile_counts const&), which is told of each work item");
    using P = typename precision_of<Queries, Kv, O>::type;
    return call_detail::checked_call(p, call_detail::operands_of<P>(q, kv, out), rule, o, observer);
}

// The plan that a call on these tensors makes for itself. Of packed sequences: for as many, as long as the longest.
template <class Tiles = tuned_tiles, class Queries, class Kv, class O>
status plan_for(Queries const& q, Kv const& kv, tensor_view<O> out, plan& p) noexcept {
    using P = typename precision_of<Queries, Kv, O>::type;
    call_detail::operands<P> const x = call_detail::operands_of<P>(q, kv, out);
    if (status const s = check_call(tensor_facts::of(x.q), tensor_facts::of(x.k), tensor_facts::of(x.v), tensor_facts::of(x.out),
                                    {}, x.packed);
        !s)
        return s;
    call_shape const call = call_detail::shape_of(x);
    problem shape{call.batch,      call.q_tokens,      call.kv_tokens,    call.q_heads,
                  x.k.shape.heads, x.q.shape.head_dim, x.v.shape.head_dim};
    if (x.kv_lies_apart()) shape.layout = kv_layout::strided;
    return make_plan<P, Tiles>(shape, p);
}

// The same without a plan of the caller's; plans for just these tensors. See above for shapes, contract and errors.
template <class Tiles = tuned_tiles, class Queries, class Kv, class O, class Rule = full, class Observer = no_observer>
status attention(Queries const& q, Kv const& kv, tensor_view<O> out, Rule const& rule = {}, options const& o = {},
                 Observer&& observer = {}) {
    plan p;
    if (status const s = plan_for<Tiles>(q, kv, out, p); !s) return s;
    return attention(p, q, kv, out, rule, o, observer);
}

IMBREX_ISA_END
