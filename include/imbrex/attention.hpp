// The entry points.
#pragma once

#include "imbrex/call.hpp"
#include "imbrex/kv_facts.hpp"
#include "imbrex/rules/causal.hpp"
#include "imbrex/rules/full.hpp"

namespace imbrex {

// The precision that queries, kv and an output of these types have.
template <class Queries, class Kv, class O, products M = products::as_stored>
struct precision_of {
    static_assert(
        sizeof(Kv) == 0,
        "imbrex: keys and values are passed together, as dense_kv{k, v}, packed_kv{k, v, starts}, paged_kv{k, v, table, "
        "lengths}, ring_kv{k, v, lengths} or two_part_kv{prefix, suffix, lengths}, or one of them in scaled_kv");
};
enum class scales_lie { in_rows, beside_rows };
template <class Q, class K, class V, class O, products M, scales_lie Scales = scales_lie::in_rows>
struct precision_of_elements {
    static_assert(
        element<Q> && kv_stored<K> && kv_stored<V> && element<O>,
        "imbrex: tensors hold float, double, imbrex::f16, imbrex::bf16, _Float16 or std::bfloat16_t (keys and values "
        "also f8_e4m3, f8_e5m2, q8_0_block or q4_0_block); if 16-bit words are bf16 or f16, say which with as_f16(p) or "
        "as_bf16(p)");
    static_assert(Scales == scales_lie::beside_rows || (!side_scaled<K> && !side_scaled<V>),
                  "imbrex: int8 and int4 keys and values need their scales; pass scaled_kv{kv, k_scales, v_scales}");
    static_assert(Scales == scales_lie::in_rows || (!std::is_same_v<K, double> && !std::is_same_v<V, double>),
                  "imbrex: f64 keys or values do not go with scaled ones; use float");
    using type = precision<std::remove_const_t<Q>, K, V, std::remove_const_t<O>, M>;
};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, dense_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, packed_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, paged_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, ring_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class K, class V, class O, products M>
struct precision_of<tensor_view<Q>, two_part_kv<K, V>, O, M> : precision_of_elements<Q, K, V, O, M> {};
template <class Q, class Kv, class O, products M>
struct precision_of<tensor_view<Q>, scaled_kv<Kv>, O, M>
    : precision_of_elements<Q, typename decltype(source_of(std::declval<Kv const&>()))::key_rows::element,
                            typename decltype(source_of(std::declval<Kv const&>()))::value_rows::element, O, M,
                            scales_lie::beside_rows> {};
template <class Q, class Kv, class O, products M>
struct precision_of<packed_queries<Q>, Kv, O, M> : precision_of<tensor_view<Q>, Kv, O, M> {};

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

template <class Queries>
packed_starts starts_of(Queries const& q) noexcept {
    if constexpr (requires { q.starts; }) {
        return q.starts;
    } else {
        return {};
    }
}

template <precision_policy P, class Queries, class Kv, class O>
auto operands_of(Queries const& q, Kv const& kv, tensor_view<O> out) noexcept {
    return operands<P, decltype(source_of(kv))>{storage_view(tokens_of(q)), source_of(kv), storage_view(out), starts_of(q)};
}

// The most that each axis of a call reaches.
template <precision_policy P, kv_source Source>
call_shape shape_of(operands<P, Source> const& x) noexcept {
    return {x.queries().sequences(), x.q.shape.heads, x.queries().longest(), x.kv.sequences().longest()};
}

// Whether this scale is a finite T. False for NaN.
template <class T>
bool fits(double scale) noexcept {
    return std::abs(scale) <= static_cast<double>(std::numeric_limits<T>::max()) / 2;
}

template <precision_policy P, kv_source Source>
call_facts facts_of(operands<P, Source> const& x, row_stats_view<float> const& row_sums) noexcept {
    call_facts f;
    f.q = tensor_facts::of(x.q);
    f.out = tensor_facts::of(x.out);
    if (row_sums.data != nullptr) f.row_sums = tensor_facts::of(row_sums, x.q.shape);
    f.q_starts = x.q_starts;
    f.kv = facts_of_kv(x.kv);
    return f;
}

// Whether the plan is for this call.
template <precision_policy P, kv_source Source>
status check_plan(plan const& p, operands<P, Source> const& x, call_shape const& call) noexcept {
    using enum tensor_role;
    if (!p.made()) return {errc::plan_not_made};
    std::string_view const dtypes[] = {dtype_name<typename P::query>(), encoding_name<typename P::key>(),
                                       encoding_name<typename P::value>(), dtype_name<typename P::output>()};
    for (int i = 0; i < 4; ++i) {
        if (p.dtypes[i] != dtypes[i]) return status{errc::plan_dtype, i, packed_name(dtypes[i]), packed_name(p.dtypes[i])};
    }
    if (p.by != P::by) return {errc::plan_products, static_cast<std::int64_t>(P::by), static_cast<std::int64_t>(p.by)};
    if (p.isa != IMBREX_ISA_NAME) return status{errc::plan_isa};
    index const planned[] = {p.shape.q_heads, p.shape.kv_heads, p.shape.head_dim, p.shape.head_dim_v};
    index const actual[] = {x.q.shape.heads, x.kv.heads(), x.kv.head_dim(), x.kv.head_dim_v()};
    for (int i = 0; i < 4; ++i) {
        if (planned[i] != actual[i]) return status{errc::plan_mismatch, i, actual[i], planned[i]};
    }
    if (!in_one_run<Source> && p.shape.layout != kv_layout::paged) return {errc::plan_layout};
    if (call.batch > p.shape.batch) return {errc::over_batch, query, call.batch, p.shape.batch};
    if (call.q_tokens > p.shape.q_tokens) return {errc::over_capacity, query, call.q_tokens, p.shape.q_tokens};
    if (call.kv_tokens > p.shape.kv_tokens) return {errc::over_capacity, key, call.kv_tokens, p.shape.kv_tokens};
    return {};
}

// A call of any kind, and all that can be wrong with it.
template <precision_policy P, kv_source Source, class Rule, class Observer>
status checked_call(plan const& p, operands<P, Source> const& x, Rule const& rule, options const& o, Observer& observer) {
    call_facts const facts = facts_of(x, o.lse);
    if (status const s = check_call(facts); !s) return s;
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
        if (given < bytes)
            return {errc::workspace_too_small, static_cast<std::int64_t>(given), static_cast<std::int64_t>(bytes), workers};
        if (status const s = check_workspace(o.workspace.data(), bytes, facts); !s) return s;
    }
    call_memory const memory{o.workspace, bytes};
    if (memory.data() == nullptr) return status{errc::out_of_memory, static_cast<std::int64_t>(bytes)};
    attention_call<P, Source, Rule, Observer>{p, x, rule, o, observer, workers, memory.data()}.run();
    return {};
}

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
    static_assert(
        rule_part<Rule>,
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

IMBREX_ISA_END
