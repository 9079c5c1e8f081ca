// One checked call over dense tensors: the work items of a plan, taken from an atomic counter by the executor's workers.
#pragma once

#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <optional>

#include "imbrex/executor.hpp"
#include "imbrex/kernel/attention_kernel.hpp"
#include "imbrex/kv/dense.hpp"
#include "imbrex/plan.hpp"

namespace imbrex {

// What a call may be told besides its tensors.
struct options {
    std::optional<double> scale{};    // of q kT; default 1 / sqrt(head_dim)
    row_stats_view<float> lse{};      // receives log(sum(exp(scale q kT))) per row, natural; default: not wanted
    executor_ref executor{};          // default: the caller's thread
    workspace_ref workspace{};        // workspace_bytes() of the caller's, or allocate{}
};

}    // namespace imbrex

IMBREX_ISA_BEGIN

namespace call_detail {

// A view's data as the library's storage type of the same bits (e.g. _Float16 as f16).
template <class T>
auto storage_view(tensor_view<T> v) noexcept {
    using S = storage_of<std::remove_const_t<T>>;
    using C = std::conditional_t<std::is_const_v<T>, S const, S>;
    return tensor_view<C>{reinterpret_cast<C*>(v.data), v.shape, v.strides};
}

inline bool lies_apart(shape4 const& shape, strides4 const& strides, index element_bytes) noexcept {
    constexpr index near_bytes = 1024;    // rows closer than this share pages, and their sets do not collide
    return shape.tokens > 1 && strides.token > shape.head_dim && strides.token * element_bytes >= near_bytes;
}

// Whether this scale is a finite T. False for NaN.
template <class T>
bool fits(double scale) noexcept {
    return std::abs(scale) <= static_cast<double>(std::numeric_limits<T>::max()) / 2;
}

// A checked call, ready to run.
template <precision_policy P, score_rule Rule>
class dense_call {
public:
    using T = typename P::score;

    dense_call(plan const& p, tensor_view<typename P::query const> q, dense_kv<typename P::key, typename P::value> const& kv,
               tensor_view<typename P::output> out, Rule const& rule, options const& o, index workers, std::byte* memory) noexcept
        : plan_{p},
          q_{q},
          kv_{kv},
          out_{out},
          lse_{o.lse},
          rule_{rule},
          executor_{o.executor},
          scale_{o.scale.value_or(1.0 / std::sqrt(static_cast<double>(q.shape.head_dim))),
                 changes_scores<Rule> ? scale_applies::to_products : scale_applies::to_differences},
          workers_{workers} {
        memory_ = workspace_layout::of(p, workers, align_up(memory));
        group_ = q.shape.heads / kv.k.shape.heads;
        rows_ = group_ * q.shape.tokens;
        unit_ = p.unit(q.shape.tokens);
        rows_per_item_ = unit_ == unit_kind::narrow ? std::max<index>(1, rows_) : p.wide_tiles.q_rows;
        row_tiles_ = (rows_ + rows_per_item_ - 1) / rows_per_item_;
        copies_ = p.copies(q.shape.tokens) && (lies_apart(kv.k.shape, kv.k.strides, sizeof(typename P::key)) ||
                                               lies_apart(kv.v.shape, kv.v.strides, sizeof(typename P::value)));
    }

    void run() const {
        index const heads = q_.shape.batch * kv_.k.shape.heads;
        index const wave = copies_ ? plan_.heads_per_wave(workers_) : heads;
        for (index first = 0; first < heads; first += wave) {
            index const count = std::min(wave, heads - first);
            if (copies_) {
                index const parts = std::max<index>(1, (kv_.k.shape.tokens + copy_rows - 1) / copy_rows);
                share_out(count * parts, [&](index i, index) { prepare(first, i / parts, i % parts * copy_rows); });
            }
            // Decision: heads one after another, each with its longest items first. The last items of the last head are then the
            // shortest of all, which balances as well as sorting everything, and K and V of a head stay in cache.
            share_out(count * row_tiles_,
                      [&](index i, index slot) { attend_item(first, i / row_tiles_, row_tiles_ - 1 - i % row_tiles_, slot); });
        }
    }

private:
    using K = typename P::key;
    using V = typename P::value;
    static constexpr index copy_rows = 256;    // per work item of the prepare phase

    static std::byte* align_up(std::byte* p) noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        return p + (cache_line_bytes - address % cache_line_bytes) % cache_line_bytes;
    }

    // Runs body(item, slot) for every item, each once. Any number of tasks, even one alone, finishes them all.
    template <class F>
    void share_out(index items, F&& body) const {
        auto* const next = new (memory_.counter) std::atomic<index>{0};
        auto task = [&](index slot) {
            for (index i; (i = next->fetch_add(1, std::memory_order_relaxed)) < items;) body(i, slot);
        };
        executor_.run(std::min(workers_, items), task);
    }

    struct place {
        index batch, kv_head;
    };
    place place_of(index head) const noexcept { return {head / kv_.k.shape.heads, head % kv_.k.shape.heads}; }

    dense_head<K, V> head_at(place at) const noexcept {
        if (kv_.k.shape.tokens == 0) return {};
        return {rows_at(kv_.k, at), rows_at(kv_.v, at)};
    }
    template <class E>
    static rows<E> rows_at(tensor_view<E const> const& t, place at) noexcept {    // strides of axes of size 1 are ignored
        index const b = t.shape.batch == 1 ? 0 : at.batch, h = t.shape.heads == 1 ? 0 : at.kv_head;
        return {t.row(b, 0, h), t.shape.tokens == 1 ? 0 : t.strides.token};
    }

    dense_head<T, T> copy_at(index in_wave) const noexcept {
        auto* const keys = reinterpret_cast<T*>(memory_.copies + in_wave * plan_.copy_bytes);
        index const stride = copied_stride<T>(q_.shape.head_dim);
        return {{keys, stride}, {keys + kv_.k.shape.tokens * stride, copied_stride<T>(kv_.v.shape.head_dim)}};
    }

    void prepare(index first, index in_wave, index row) const noexcept {
        auto const from = head_at(place_of(first + in_wave));
        auto const to = copy_at(in_wave);
        index const count = std::min(copy_rows, kv_.k.shape.tokens - row);
        widen_rows<T>(from.keys.from(row), count, q_.shape.head_dim, const_cast<T*>(to.keys.row(row)), to.keys.stride);
        widen_rows<T>(from.values.from(row), count, kv_.v.shape.head_dim, const_cast<T*>(to.values.row(row)), to.values.stride);
    }

    void attend_item(index first, index in_wave, index row_tile, index slot) const noexcept {
        place const at = place_of(first + in_wave);
        head_context const ctx{at.batch, static_cast<position>(q_.shape.tokens), static_cast<position>(kv_.k.shape.tokens),
                               static_cast<position>(at.kv_head * group_), static_cast<position>(group_)};
        auto const rows = rows_of(at, row_tile);
        arena scratch{memory_.slots + slot * plan_.slot_bytes};
        if (unit_ == unit_kind::narrow) {
            auto const x = lay_out_narrow<P>(scratch, plan_.shape, plan_.narrow_rows, plan_.narrow_kv_cols);
            attend_narrow<1>(rows, at, ctx, x);
            return;
        }
        auto const x = wide_slot<P>::lay_out(scratch, plan_.shape, plan_.wide_tiles);
        wide_unit<P, Rule> unit{x.unit, rule_, ctx, q_.shape.head_dim, kv_.v.shape.head_dim, scale_};
        if (copies_) {
            imbrex::attend(unit, rows, copy_at(in_wave), rule_, ctx, plan_.wide_tiles.kv_cols);
        } else {
            widened<T, dense_head<K, V>> const kv{head_at(at), x.widening, q_.shape.head_dim, kv_.v.shape.head_dim};
            imbrex::attend(unit, rows, kv, rule_, ctx, plan_.wide_tiles.kv_cols);
        }
    }

    // The narrow unit with the fewest rows that hold these.
    template <int R>
    void attend_narrow(row_block<typename P::query, typename P::output> const& rows, place at, head_context const& ctx,
                       narrow_scratch<T> const& x) const noexcept {
        if constexpr (R < narrow_rows_limit<P>()) {
            if (rows.count > R) return attend_narrow<2 * R>(rows, at, ctx, x);
        }
        narrow_unit<P, Rule, R> unit{x, rule_, ctx, q_.shape.head_dim, kv_.v.shape.head_dim, scale_};
        imbrex::attend(unit, rows, head_at(at), rule_, ctx, plan_.narrow_kv_cols);
    }

    row_block<typename P::query, typename P::output> rows_of(place at, index row_tile) const noexcept {
        index const q_head = at.kv_head * group_;
        row_block<typename P::query, typename P::output> r;
        r.q = q_.row(at.batch, 0, q_head);
        r.q_token = q_.strides.token;
        r.q_head = q_.strides.head;
        r.out = out_.row(at.batch, 0, q_head);
        r.out_token = out_.strides.token;
        r.out_head = out_.strides.head;
        if (lse_.data != nullptr) r.lse = lse_.at(at.batch, q_head, 0);
        r.lse_token = lse_.token_stride;
        r.lse_head = lse_.head_stride;
        r.group = group_;
        r.first = row_tile * rows_per_item_;
        r.count = std::min(rows_per_item_, rows_ - r.first);
        return r;
    }

    plan const& plan_;
    tensor_view<typename P::query const> q_;
    dense_kv<K, V> kv_;
    tensor_view<typename P::output> out_;
    row_stats_view<float> lse_;
    Rule const& rule_;
    executor_ref executor_;
    score_scale<T> scale_;
    index workers_;
    workspace_layout memory_;
    index group_, rows_, rows_per_item_, row_tiles_;
    unit_kind unit_;
    bool copies_;
};

template <precision_policy P>
status check_plan(plan const& p, shape4 const& q, shape4 const& k, shape4 const& v) noexcept {
    using enum tensor_role;
    if (!p.made()) return {errc::plan_not_made};
    std::string_view const dtypes[] = {dtype_name<typename P::query>(), dtype_name<typename P::key>(),
                                       dtype_name<typename P::value>(), dtype_name<typename P::output>()};
    for (int i = 0; i < 4; ++i) {
        if (p.dtypes[i] != dtypes[i]) return status{errc::plan_dtype, i};
    }
    if (p.isa != IMBREX_ISA_NAME) return status{errc::plan_isa};
    index const planned[] = {p.shape.q_heads, p.shape.kv_heads, p.shape.head_dim, p.shape.head_dim_v};
    index const actual[] = {q.heads, k.heads, q.head_dim, v.head_dim};
    for (int i = 0; i < 4; ++i) {
        if (planned[i] != actual[i]) return status{errc::plan_mismatch, i, actual[i], planned[i]};
    }
    if (q.batch > p.shape.batch) return {errc::over_batch, query, q.batch, p.shape.batch};
    if (q.tokens > p.shape.q_tokens) return {errc::over_capacity, query, q.tokens, p.shape.q_tokens};
    if (k.tokens > p.shape.kv_tokens) return {errc::over_capacity, key, k.tokens, p.shape.kv_tokens};
    return {};
}

}    // namespace call_detail

IMBREX_ISA_END
