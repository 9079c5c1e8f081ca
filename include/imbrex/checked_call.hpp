// From the caller's tensors to a call that may run: everything that can be wrong with it is found here, before its work items.
#pragma once

#include "imbrex/call.hpp"
#include "imbrex/kv_facts.hpp"

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

// What a call's plan must have been made for.
struct planned_for {
    std::string_view dtypes[4];    // query, key, value, output
    products by;
    index sizes[4];      // query heads, kv heads, head_dim, head_dim_v
    kv_layout layout;    // paged, or any
    call_shape call;
};

template <precision_policy P, kv_source Source>
planned_for plan_of(operands<P, Source> const& x) noexcept {
    return {{dtype_name<typename P::query>(), encoding_name<typename P::key>(), encoding_name<typename P::value>(),
             dtype_name<typename P::output>()},
            products_of<P>,
            {x.q.shape.heads, x.kv.heads(), x.kv.head_dim(), x.kv.head_dim_v()},
            in_one_run<Source> ? kv_layout::contiguous : kv_layout::paged,
            shape_of(x)};
}

// Whether the plan is for this call.
IMBREX_NOINLINE inline status check_plan(plan const& p, planned_for const& c) noexcept {
    using enum tensor_role;
    if (!p.made()) return {errc::plan_not_made};
    for (int i = 0; i < 4; ++i) {
        if (p.dtypes[i] != c.dtypes[i]) return status{errc::plan_dtype, i, packed_name(c.dtypes[i]), packed_name(p.dtypes[i])};
    }
    if (p.by != c.by) return {errc::plan_products, static_cast<std::int64_t>(c.by), static_cast<std::int64_t>(p.by)};
    if (p.isa != IMBREX_ISA_NAME) return status{errc::plan_isa};
    index const planned[] = {p.shape.q_heads, p.shape.kv_heads, p.shape.head_dim, p.shape.head_dim_v};
    for (int i = 0; i < 4; ++i) {
        if (planned[i] != c.sizes[i]) return status{errc::plan_mismatch, i, c.sizes[i], planned[i]};
    }
    if (c.layout == kv_layout::paged && p.shape.layout != kv_layout::paged) return {errc::plan_layout};
    if (c.call.batch > p.shape.batch) return {errc::over_batch, query, c.call.batch, p.shape.batch};
    if (c.call.q_tokens > p.shape.q_tokens) return {errc::over_capacity, query, c.call.q_tokens, p.shape.q_tokens};
    if (c.call.kv_tokens > p.shape.kv_tokens) return {errc::over_capacity, key, c.call.kv_tokens, p.shape.kv_tokens};
    return {};
}

// Whether the caller's workspace has so many bytes for these workers, apart from all else.
IMBREX_NOINLINE inline status check_room(workspace_ref workspace, std::size_t bytes, index workers,
                                         call_facts const& facts) noexcept {
    if (workspace.may_allocate()) return {};
    std::size_t const given = workspace.data() == nullptr ? 0 : workspace.size();
    if (given < bytes)
        return {errc::workspace_too_small, static_cast<std::int64_t>(given), static_cast<std::int64_t>(bytes), workers};
    return check_workspace(workspace.data(), bytes, facts);
}

// A call of any kind, and all that can be wrong with it.
template <precision_policy P, kv_source Source, class Rule>
status checked_call(plan const& p, operands<P, Source> const& x, Rule const& rule, options const& o, observer_ref observer) {
    call_facts const facts = facts_of(x, o.lse);
    if (status const s = check_call(facts); !s) return s;
    planned_for const planned = plan_of(x);
    if (status const s = check_plan(p, planned); !s) return s;
    if (o.scale && !fits<typename P::score>(*o.scale)) return {errc::scale_not_finite};
    call_shape const& shape = planned.call;
    if (status const s = check_rule(rule, shape); !s) return s;
    index const workers = o.executor.max_workers();
    if (workers < 1 || workers > max_workers) return {errc::no_workers, workers, max_workers};
    if (shape.batch == 0 || shape.q_tokens == 0 || shape.q_heads == 0) return {};
    std::size_t const bytes = workspace_bytes(p, workers);
    if (status const s = check_room(o.workspace, bytes, workers, facts); !s) return s;
    call_memory const memory{o.workspace, bytes};
    if (memory.data() == nullptr) return status{errc::out_of_memory, static_cast<std::int64_t>(bytes)};
    attention_call<P, Source, Rule>{p, x, rule, o, observer, workers, memory.data()}.run();
    return {};
}

}    // namespace call_detail

IMBREX_ISA_END
