// imbrex::compiled: compiled once for each instruction set, with the kernels, and once more as the functions that choose.
#include "imbrex/compiled.hpp"

#include "imbrex/dispatch.hpp"
#include "imbrex/plan.hpp"

namespace imbrex::compiled {

template <class T>
struct kernels_of {
    status (*run)(detail::call<T> const&);
    status (*make_plan)(problem const&, plan&) noexcept;
};

struct imbrex_compiled_kernels {
    kernels_of<float> f32;
    kernels_of<bf16> bf16s;
    kernels_of<f16> f16s;
};
IMBREX_DISPATCHED(imbrex_compiled_kernels)

}    // namespace imbrex::compiled

#ifdef IMBREX_DISPATCH_SET

#include "imbrex/attention.hpp"

namespace imbrex::compiled {
namespace {

template <class T, class Queries, class Kv>
status attend(detail::call<T> const& c, Queries const& q, Kv const& kv) {
    if (c.planned == nullptr) return imbrex::attention(q, kv, c.out, c.seen, *c.how);
    return imbrex::attention(*c.planned, q, kv, c.out, c.seen, *c.how);
}

template <class T, class Kv>
status attend(detail::call<T> const& c, Kv const& kv) {
    return c.q_starts ? attend(c, packed_queries<T>{c.q, *c.q_starts}, kv) : attend(c, c.q, kv);
}

template <class T>
status run(detail::call<T> const& c) {
    using place = typename detail::call<T>::place;
    switch (c.kv_place) {
        case place::packed: return attend(c, packed_kv<T>{c.k, c.v, c.starts_or_lengths});
        case place::paged: return attend(c, paged_kv<T>{c.k, c.v, c.table, c.starts_or_lengths});
        case place::dense: break;
    }
    return attend(c, dense_kv<T>{c.k, c.v});
}

template <class T>
constexpr kernels_of<T> kernels{
    run<T>, [](problem const& shape, plan& out) noexcept { return imbrex::make_plan<precision<T>>(shape, out); }};

}    // namespace

IMBREX_DISPATCH_TABLE(imbrex_compiled_kernels, {kernels<float>, kernels<bf16>, kernels<f16>})

}    // namespace imbrex::compiled

#else

namespace imbrex::compiled {
namespace {

using choice = dispatch::choice<imbrex_compiled_kernels>;

// Chosen once: a plan of one instruction set is none of another.
choice const& chosen() noexcept {
    static choice const c = dispatch::choose<imbrex_compiled_kernels>();
    return c;
}

template <class T>
status run_chosen(kernels_of<T> imbrex_compiled_kernels::*of, detail::call<T> const& c) {
    return chosen() ? ((*chosen()).*of).run(c) : status{errc::isa_not_chosen};
}
template <class T>
status make_plan_chosen(kernels_of<T> imbrex_compiled_kernels::*of, problem const& shape, plan& out) noexcept {
    return chosen() ? ((*chosen()).*of).make_plan(shape, out) : status{errc::isa_not_chosen};
}

}    // namespace

status detail::run(call<float> const& c) { return run_chosen(&imbrex_compiled_kernels::f32, c); }
status detail::run(call<bf16> const& c) { return run_chosen(&imbrex_compiled_kernels::bf16s, c); }
status detail::run(call<f16> const& c) { return run_chosen(&imbrex_compiled_kernels::f16s, c); }

template <>
status make_plan<float>(problem const& shape, plan& out) noexcept {
    return make_plan_chosen(&imbrex_compiled_kernels::f32, shape, out);
}
template <>
status make_plan<bf16>(problem const& shape, plan& out) noexcept {
    return make_plan_chosen(&imbrex_compiled_kernels::bf16s, shape, out);
}
template <>
status make_plan<f16>(problem const& shape, plan& out) noexcept {
    return make_plan_chosen(&imbrex_compiled_kernels::f16s, shape, out);
}

std::string_view isa() noexcept { return chosen().isa(); }
std::string_view reason() noexcept { return chosen().reason().view(); }

}    // namespace imbrex::compiled

#endif
