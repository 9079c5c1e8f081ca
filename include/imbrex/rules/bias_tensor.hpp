// A number added to each score, from a tensor of the caller's.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "imbrex/rule.hpp"
#include "imbrex/simd/elementwise.hpp"
#include "imbrex/view.hpp"

namespace imbrex {

// s = s + bias[batch][head][query][key], of query and key by number, not by position: an additive mask, or a pair bias.
// bias (batch or 1, q_heads or 1, Sq or 1, Sk or 1) of float, bf16, f16 or double; an axis of size 1 serves all. A bias of -inf
// hides the key from the query; any finite one, however negative, does not.
// A query and its key cost one load each, of one vector's queries in different rows: a tensor whose keys lie apart and whose
// queries lie side by side is read fastest.
template <element E>
struct bias_tensor {
    static constexpr score_stage stage = score_stage::bias;

    constexpr explicit bias_tensor(score_view<E const> view) noexcept
        : data_{view.data}, shape_{view.shape}, strides_{strides_of(view)}, near_{lies_near(view.shape, strides_)} {}
    constexpr explicit bias_tensor(score_view<E> view) noexcept requires(!std::is_const_v<E>)
        : bias_tensor{score_view<E const>{view.data, view.shape, view.strides}} {}

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        auto const& head = ctx.head();
        using H = std::remove_cvref_t<decltype(head)>;
        if constexpr (is_lanes<Q> || is_lanes<K> || is_lanes<H>) {
            using I = lane_int<typename scalar_of<S>::type>;
            using V = lanes<I>;
            if (!near_) return biased<S>(s, far<S>(ctx, q, kv));
            storage const* from = elements() + ctx.batch * strides_.batch;
            V at = (V(q) - V(static_cast<I>(ctx.query_offset()))) * V(static_cast<I>(strides_.query)) +
                   V(kv) * V(static_cast<I>(strides_.key));
            if constexpr (is_lanes<H>) {
                at = at + V(head) * V(static_cast<I>(strides_.head));
            } else {
                from += head * strides_.head;
            }
            return biased<S>(s, finite<S>(from, at));
        } else {
            return biased<S>(s, S(one<S>(ctx.batch, head, q - ctx.query_offset(), kv)));
        }
    }

    constexpr coverage classify(head_context const&, tile_window const&) const noexcept { return coverage::partial; }

    constexpr status check(call_shape const& call) const noexcept {
        index const sizes[] = {shape_.batch, shape_.heads, shape_.q_tokens, shape_.kv_tokens};
        index const needed[] = {call.batch, call.q_heads, call.q_tokens, call.kv_tokens};
        for (int axis = 0; axis < 4; ++axis) {
            if (sizes[axis] != 1 && sizes[axis] != needed[axis]) return {errc::rule_axis, axis, sizes[axis], needed[axis]};
        }
        return {};
    }

private:
    using storage = storage_of<E>;
    storage const* elements() const noexcept { return as_storage(data_); }

    static constexpr score_strides strides_of(score_view<E const> const& v) noexcept {
        return {v.shape.batch == 1 ? 0 : v.strides.batch, v.shape.heads == 1 ? 0 : v.strides.head,
                v.shape.q_tokens == 1 ? 0 : v.strides.query, v.shape.kv_tokens == 1 ? 0 : v.strides.key};
    }
    // All heads, queries and keys of a sequence within reach of a 32-bit offset.
    static constexpr bool lies_near(score_shape const& shape, score_strides const& strides) noexcept {
        index const sizes[] = {shape.heads, shape.q_tokens, shape.kv_tokens};
        index const steps[] = {strides.head, strides.query, strides.key};
        index left = max_length;
        for (int axis = 0; axis < 3; ++axis) {
            index const step = steps[axis] < 0 ? -steps[axis] : steps[axis];
            if (step != 0 && sizes[axis] > left / step) return false;
            left -= step * sizes[axis];
        }
        return true;
    }

    // As a score of type S; a finite double that is no float is held to the largest or lowest one.
    template <class S>
    IMBREX_ALWAYS_INLINE auto one(index b, index h, index q, index kv) const noexcept {
        return held<S>(elements()[b * strides_.batch + h * strides_.head + q * strides_.query + kv * strides_.key]);
    }
    template <class S>
    static IMBREX_ALWAYS_INLINE auto held(storage x) noexcept {
        if constexpr (std::is_same_v<storage, double> && std::is_same_v<typename scalar_of<S>::type, float>) {
            constexpr double most = std::numeric_limits<float>::max();
            double const infinite = std::numeric_limits<double>::infinity();
            return x == infinite || x == -infinite || x != x ? static_cast<float>(x)
                                                             : static_cast<float>(std::clamp(x, -most, most));
        } else {
            return element_as<S>(x);
        }
    }
    template <class S, class V>
    static IMBREX_ALWAYS_INLINE S finite(storage const* from, V const& at) noexcept {
        if constexpr (std::is_same_v<storage, double> && std::is_same_v<typename scalar_of<S>::type, float>) {
            return lanewise_score<S>([from](auto n, auto, auto) noexcept { return held<S>(from[n]); }, at, 0, 0);
        } else {
            return gather<S>(from, at);
        }
    }
    // With 64-bit offsets.
    template <class S, class Ctx, class Q, class K>
    IMBREX_ALWAYS_INLINE S far(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        index const offset = ctx.query_offset(), b = ctx.batch;
        return lanewise_score<S>([&](index h, index i, index j) noexcept { return one<S>(b, h, i - offset, j); }, ctx.head(), q,
                                 kv);
    }

    E const* data_;
    score_shape shape_;
    score_strides strides_;
    bool near_;
};

template <class E>
bias_tensor(score_view<E>) -> bias_tensor<std::remove_const_t<E>>;

}    // namespace imbrex
