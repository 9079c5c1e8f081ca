// The definitions of dynamic_run.hpp, compiled once a precision in dynamic_*.cpp.
#pragma once

#include <sstream>
#include <vector>

#include "dynamic_run.hpp"

namespace imbrex_test {

// The least tiles of a plan, and some of a size that cases often end at.
struct smallest_tiles {
    static constexpr imbrex::tile_shape select(imbrex::tile_request const& r) noexcept { return {r.narrow ? 0 : r.lanes, 16}; }
};
struct small_tiles {
    static constexpr imbrex::tile_shape select(imbrex::tile_request const& r) noexcept { return {r.narrow ? 0 : r.max_q_rows, 64}; }
};

template <class P>
imbrex::status attend_dynamically(dynamic_case const& c, dynamic_call const& rule, call_tensors<P> const& t,
                                  imbrex::dense_kv<typename P::key, typename P::value> const& kv) {
    imbrex::options const o{.scale = scale_of(c), .lse = imbrex::bhs(t.lse.data(), t.q.view.shape)};
    imbrex::plan p;
    imbrex::status const s = c.tiles == 0   ? imbrex::plan_for(t.q.view, kv, t.out.view, p)
                             : c.tiles == 1 ? imbrex::plan_for<small_tiles>(t.q.view, kv, t.out.view, p)
                                            : imbrex::plan_for<smallest_tiles>(t.q.view, kv, t.out.view, p);
    if (!s) return s;
    guarded<std::byte> workspace{imbrex::workspace_bytes(p, o.executor.max_workers())};
    imbrex::options with_workspace = o;
    with_workspace.workspace = workspace;
    if (c.what.change_count == 0 && c.what.sinks[0] == 0 && c.what.sinks[1] == 0) {
        return imbrex::attention(p, t.q.view, kv, t.out.view, dynamic_mask{&rule}, with_workspace);
    }
    return imbrex::attention(p, t.q.view, kv, t.out.view, dynamic_rule(rule), with_workspace);
}

template <class S>
struct plain_row {
    std::vector<S> out;
    S lse;
};

// softmax(rule(scale q kT)) v of one query.
template <class S, class P>
plain_row<S> plain_attention(dynamic_case const& c, call_tensors<P> const& t, index b, index h, index i, std::vector<char> const& seen,
                             weights rounding = weights::as_computed) {
    index const kv_head = h / (c.q_heads / c.kv_heads), kv_batch = c.one_kv != 0 ? 0 : b;
    S const nothing = -std::numeric_limits<S>::infinity();
    std::vector<S> scores(static_cast<std::size_t>(c.kv_tokens), nothing);
    auto const* const query = t.q.view.row(b, i, h);
    S highest = nothing, sum = 0;
    auto const scale = static_cast<S>(scale_of(c));
    for (index j = 0; j < c.kv_tokens; ++j) {
        if (seen[static_cast<std::size_t>(j)] == 0) continue;
        auto const* const key = t.k.view.row(kv_batch, j, kv_head);
        S s = 0;
        for (index d = 0; d < c.head_dim; ++d) s += static_cast<S>(imbrex::to_double(query[d])) * static_cast<S>(imbrex::to_double(key[d]));
        s *= scale;
        for (auto const stage : {imbrex::score_stage::scale, imbrex::score_stage::cap, imbrex::score_stage::bias})
            s = c.what.changed(stage, place_of(c, b, h, i, j), s);
        scores[static_cast<std::size_t>(j)] = s;
        highest = std::max(highest, s);
    }
    for (index const salt : c.what.sinks) {
        if (salt != 0) highest = std::max(highest, static_cast<S>(sink_of(salt, h)));
    }
    plain_row<S> row{std::vector<S>(static_cast<std::size_t>(c.head_dim_v)), nothing};
    if (highest == nothing) return row;
    S used = 0;
    S const unit = unit_of_weights(rounding, highest);
    for (index j = 0; j < c.kv_tokens; ++j) {
        S const as_it_was = std::exp(scores[static_cast<std::size_t>(j)] - highest), weight = rounded_weight(rounding, as_it_was * unit);
        if (as_it_was == 0) continue;
        sum += as_it_was;
        used += weight;
        auto const* const value = t.v.view.row(kv_batch, j, kv_head);
        for (index d = 0; d < c.head_dim_v; ++d) row.out[static_cast<std::size_t>(d)] += weight * static_cast<S>(imbrex::to_double(value[d]));
    }
    for (index const salt : c.what.sinks) {
        if (salt == 0) continue;
        S const weight = std::exp(static_cast<S>(sink_of(salt, h)) - highest);
        sum += weight;
        used += weight * unit;
    }
    for (S& x : row.out) x /= used;
    row.lse = highest + std::log(sum);
    return row;
}

template <class P>
std::string fault_of(dynamic_case const& c) {
    using S = typename P::score;
    using O = typename P::output;
    using wide = std::conditional_t<std::is_same_v<S, double>, long double, double>;
    dynamic_call const rule = dynamic_call_of(c);
    call_tensors<P> const t{shapes_of(c)};
    fill_case(c, rule, t);
    imbrex::dense_kv<typename P::key, typename P::value> kv = t.kv();
    if (c.one_kv != 0) kv.k.shape.batch = kv.v.shape.batch = 1;
    if (imbrex::status const s = attend_dynamically(c, rule, t, kv); !s) return s.message().c_str();

    std::ostringstream fault;
    largest_errors e;
    double largest_value = 0;
    for (auto const x : t.v.memory) {
        double const size = std::abs(imbrex::to_double(x));
        if (size > largest_value) largest_value = size;    // false for NaN
    }
    weights const as_in_unit = weights_of_rows<P>(c.q_tokens * (c.q_heads / c.kv_heads));
    std::vector<char> seen(static_cast<std::size_t>(c.kv_tokens));
    for_each_row(t.out.view, [&](index b, index i, index h, O const* ours) {
        for (index j = 0; j < c.kv_tokens; ++j) {
            place const p = place_of(c, b, h, i, j);
            seen[static_cast<std::size_t>(j)] = c.what.keeps(p) && !c.what.hides(p);
        }
        auto const exact = plain_attention<wide>(c, t, b, h, i, seen);
        auto const naive = plain_attention<S>(c, t, b, h, i, seen, as_in_unit);
        for (index d = 0; d < c.head_dim_v; ++d) {
            auto const at = static_cast<std::size_t>(d);
            double const got = imbrex::to_double(ours[d]);
            double const rounding = std::max(half_ulp<O>(got), half_ulp<O>(static_cast<double>(exact.out[at])));
            if (std::isnan(got) && fault.tellp() == 0) fault << "NaN at batch " << b << ", query " << i << ", head " << h << "; ";
            e.ours = std::max(e.ours, static_cast<double>(std::abs(static_cast<wide>(got) - exact.out[at])) - rounding);
            e.naive = std::max(e.naive, static_cast<double>(std::abs(static_cast<wide>(naive.out[at]) - exact.out[at])));
        }
        double const error = lse_error(*imbrex::bhs(t.lse.data(), t.q.view.shape).at(b, h, i), static_cast<double>(exact.lse));
        e.lse = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(e.lse, error);
    });
    double const allowed = 2 * e.naive + 2e-6 * largest_value * (std::is_same_v<S, double> ? 0x1p-29 : 1);
    if (!(e.ours <= allowed)) fault << "error " << e.ours << " > " << allowed << "; ";
    if (!(e.lse <= 1e-5)) fault << "error of lse " << e.lse << "; ";
    if (rule.beyond != 0) fault << rule.beyond << " questions beyond the call's queries, keys and heads; ";
    return fault.str();
}

}    // namespace imbrex_test

#define IMBREX_TEST_DYNAMIC(...)                                                                                                          \
    template std::string imbrex_test::fault_of<__VA_ARGS__>(dynamic_case const&);                                                        \
    template imbrex::status imbrex_test::attend_dynamically<__VA_ARGS__>(                                                                 \
        dynamic_case const&, dynamic_call const&, call_tensors<__VA_ARGS__> const&,                                                      \
        imbrex::dense_kv<typename __VA_ARGS__::key, typename __VA_ARGS__::value> const&);
