// Attention compiled beforehand, for those who would rather not instantiate templates: link imbrex::compiled, which has the code
// for several instruction sets and takes the best that runs here, or the one that IMBREX_ISA names (dispatch.hpp).
//
// Queries, keys, values and output are all f32, all bf16 or all f16. Everything else is a template's: imbrex.hpp.
#pragma once

#include <type_traits>

#include "imbrex/dtype.hpp"
#include "imbrex/kv/packed.hpp"
#include "imbrex/kv/paged.hpp"
#include "imbrex/options.hpp"
#include "imbrex/problem.hpp"
#include "imbrex/rules/window.hpp"

namespace imbrex {

struct plan;    // plan.hpp, for those who plan

namespace compiled {

template <class T>
concept compiled_element = std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

namespace detail {

// A call of any kind, as it crosses to the code for one instruction set.
template <class T>
struct call {
    plan const* planned;
    tensor_view<T const> q;
    packed_starts q_starts;
    enum class place { dense, packed, paged } kv_place;
    tensor_view<T const> k, v;
    std::span<position const> starts_or_lengths;    // of packed keys and values the starts, of paged ones the lengths
    block_table table;
    tensor_view<T> out;
    window seen;
    options const* how;
};

template <compiled_element T>
void put(call<T>& c, std::type_identity_t<tensor_view<T const>> q) noexcept {
    c.q = q;
}
template <compiled_element T>
void put(call<T>& c, std::type_identity_t<packed_queries<T>> const& q) noexcept {
    c.q = q.tokens, c.q_starts = q.starts;
}

template <compiled_element T>
void put(call<T>& c, std::type_identity_t<dense_kv<T>> const& kv) noexcept {
    c.kv_place = call<T>::place::dense, c.k = kv.k, c.v = kv.v;
}
template <compiled_element T>
void put(call<T>& c, std::type_identity_t<packed_kv<T>> const& kv) noexcept {
    c.kv_place = call<T>::place::packed, c.k = kv.k, c.v = kv.v, c.starts_or_lengths = kv.starts;
}
template <compiled_element T>
void put(call<T>& c, std::type_identity_t<paged_kv<T>> const& kv) noexcept {
    c.kv_place = call<T>::place::paged, c.k = kv.k, c.v = kv.v, c.starts_or_lengths = kv.lengths, c.table = kv.table;
}

status run(call<float> const& c);
status run(call<bf16> const& c);
status run(call<f16> const& c);

template <class T, class Queries, class Kv>
status run(plan const* p, Queries const& q, Kv const& kv, tensor_view<T> out, window seen, options const& o) {
    static_assert(compiled_element<T>, "imbrex: imbrex::compiled has f32, bf16 and f16; include imbrex/imbrex.hpp for the rest");
    static_assert(
        requires(call<T> & c) { put(c, q), put(c, kv); },
        "imbrex: imbrex::compiled takes queries as a tensor_view or packed_queries and keys and values as a dense_kv, packed_kv "
        "or paged_kv, all of the output's type; include imbrex/imbrex.hpp for the rest");
    call<T> c{};
    c.planned = p, c.out = out, c.seen = seen, c.how = &o;
    put(c, q);
    put(c, kv);
    return run(c);
}

}    // namespace detail

// Exact attention; shapes, contract and errors are those of imbrex::attention (attention.hpp), and so are the options.
//   q     tensor_view, or packed_queries
//   kv    dense_kv, packed_kv or paged_kv
//   seen  window{} for all keys, window{.right = 0} for causal, aligned at the bottom right, window{.left = n, .right = 0} for a
//         sliding window
// Errors besides: isa_not_chosen, where IMBREX_ISA names a set that is not there, or no set runs here.
template <class Queries, class Kv, class T>
status attention(Queries const& q, Kv const& kv, tensor_view<T> out, window seen = {}, options const& o = {}) {
    return detail::run(nullptr, q, kv, out, seen, o);
}

// The same on a plan: plan once, run many.
template <class Queries, class Kv, class T>
status attention(plan const& p, Queries const& q, Kv const& kv, tensor_view<T> out, window seen = {}, options const& o = {}) {
    return detail::run(&p, q, kv, out, seen, o);
}

// Plans calls whose tensors are all of T and whose shapes stay within `shape`: imbrex::make_plan for the instruction set chosen.
// workspace_bytes and path_of (plan.hpp) serve such a plan as any other.
template <compiled_element T>
status make_plan(problem const& shape, plan& out) noexcept;
template <>
status make_plan<float>(problem const& shape, plan& out) noexcept;
template <>
status make_plan<bf16>(problem const& shape, plan& out) noexcept;
template <>
status make_plan<f16>(problem const& shape, plan& out) noexcept;

// The instruction set that runs, e.g. "x86-64-v4", or "none", and why, in one sentence. Chosen by the first call of any function
// here, once for the process.
std::string_view isa() noexcept;
std::string_view reason() noexcept;

}    // namespace compiled
}    // namespace imbrex
