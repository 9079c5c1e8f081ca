// The entry points.
#pragma once

#include "imbrex/checks.hpp"
#include "imbrex/dense_call.hpp"
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"

namespace imbrex {

// The precision that views and kv of these types have.
template <class Q, class Kv, class O>
struct precision_of {
    static_assert(sizeof(Kv) == 0, "imbrex: keys and values are passed together, as dense_kv{k, v}");
};
template <class Q, class K, class V, class O>
struct precision_of<Q, dense_kv<K, V>, O> {
    static_assert(element<Q> && element<K> && element<V> && element<O>,
                  "imbrex: tensors hold float, double, imbrex::f16, imbrex::bf16, _Float16 or std::bfloat16_t; if 16-bit words "
                  "are bf16 or f16, say which with as_f16(p) or as_bf16(p)");
    using type = precision<std::remove_const_t<Q>, K, V, std::remove_const_t<O>>;
};

}    // namespace imbrex

IMBREX_ISA_BEGIN

// Exact attention on a plan: out = softmax(scale q kT, where the rule lets a query see a key) v.
//   q    (batch, Sq, q_heads, head_dim)
//   kv   keys (batch or 1, Sk, kv_heads, head_dim), values (batch or 1, Sk, kv_heads, head_dim_v); q_heads a multiple of kv_heads
//   out  (batch, Sq, q_heads, head_dim_v); may not share memory with an input
// A query that may see no key gives 0, and a log-sum-exp of -inf. A key that no query of the call may see is never used. A NaN in
// a key reaches only the queries that see it; a NaN or Inf in a value that some query sees may reach other rows of its tile.
// Errors: any misfit of shapes, strides or memory; more than the plan's capacity; a missing or small workspace. Nothing is
// written then.
template <class Q, class Kv, class O, class Rule = full>
status attention(plan const& p, tensor_view<Q> q, Kv const& kv, tensor_view<O> out, Rule const& rule = {},
                 options const& o = {}) {
    static_assert(rule_part<Rule>,
                  "imbrex: the rule lacks keep(ctx, q, kv), which says as a bool or lanes of it whether q may see kv; nor has it a "
                  "transform or a sink");
    static_assert(classifies<Rule>,
                  "imbrex: the rule lacks classify(head_context, tile_window); return coverage::partial if unsure");
    static_assert(!std::is_const_v<O>, "imbrex: the output view is of const elements; pass a view of writable ones");
    using P = typename precision_of<Q, Kv, O>::type;
    tensor_facts const tensors[] = {tensor_facts::of(q), tensor_facts::of(kv.k), tensor_facts::of(kv.v), tensor_facts::of(out),
                                    o.lse.data == nullptr ? tensor_facts{} : tensor_facts::of(o.lse, q.shape)};
    auto const& [tq, tk, tv, to, tl] = tensors;
    if (status const s = check_call(tq, tk, tv, to, tl); !s) return s;
    if (status const s = call_detail::check_plan<P>(p, q.shape, kv.k.shape, kv.v.shape); !s) return s;
    if (o.scale && !call_detail::fits<typename P::score>(*o.scale)) return {errc::scale_not_finite};
    call_shape const shape{q.shape.batch, q.shape.heads, q.shape.tokens, kv.k.shape.tokens};
    if (status const s = check_rule(rule, shape); !s) return s;
    index const workers = o.executor.max_workers();
    if (workers < 1 || workers > max_workers) return {errc::no_workers, workers, max_workers};
    if (q.shape.batch == 0 || q.shape.tokens == 0 || q.shape.heads == 0) return {};
    std::size_t const bytes = workspace_bytes(p, workers);
    if (!o.workspace.may_allocate()) {
        std::size_t const given = o.workspace.data() == nullptr ? 0 : o.workspace.size();
        if (given < bytes) return {errc::workspace_too_small, static_cast<std::int64_t>(given), static_cast<std::int64_t>(bytes)};
        if (status const s = check_workspace(o.workspace.data(), bytes, tensors); !s) return s;
    }
    call_memory const memory{o.workspace, bytes};
    if (memory.data() == nullptr) return status{errc::out_of_memory, static_cast<std::int64_t>(bytes)};
    call_detail::dense_call<P, Rule>{p,
                                     call_detail::storage_view(tensor_view<Q const>{q.data, q.shape, q.strides}),
                                     {call_detail::storage_view(kv.k), call_detail::storage_view(kv.v)},
                                     call_detail::storage_view(out),
                                     rule,
                                     o,
                                     workers,
                                     memory.data()}
        .run();
    return {};
}

// The plan that a call on these tensors makes for itself.
template <class Tiles = tuned_tiles, class Q, class Kv, class O>
status plan_for(tensor_view<Q> q, Kv const& kv, tensor_view<O> out, plan& p) noexcept {
    using P = typename precision_of<Q, Kv, O>::type;
    if (status const s =
            check_call(tensor_facts::of(q), tensor_facts::of(kv.k), tensor_facts::of(kv.v), tensor_facts::of(out), {});
        !s)
        return s;
    problem shape{q.shape.batch,    q.shape.tokens,   kv.k.shape.tokens,  q.shape.heads,
                  kv.k.shape.heads, q.shape.head_dim, kv.v.shape.head_dim};
    if (call_detail::lies_apart(kv.k.shape, kv.k.strides, sizeof(*kv.k.data)) ||
        call_detail::lies_apart(kv.v.shape, kv.v.strides, sizeof(*kv.v.data))) {
        shape.layout = kv_layout::strided;
    }
    return make_plan<P, Tiles>(shape, p);
}

// The same without a plan of the caller's; plans for just these tensors. See above for shapes, contract and errors.
template <class Tiles = tuned_tiles, class Q, class Kv, class O, class Rule = full>
status attention(tensor_view<Q> q, Kv const& kv, tensor_view<O> out, Rule const& rule = {}, options const& o = {}) {
    plan p;
    if (status const s = plan_for<Tiles>(q, kv, out, p); !s) return s;
    return attention(p, q, kv, out, rule, o);
}

IMBREX_ISA_END
