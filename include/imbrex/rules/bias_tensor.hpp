// A number added to each score, from a tensor of the caller's.
#pragma once

#include <type_traits>

#include "imbrex/rule.hpp"
#include "imbrex/simd/elementwise.hpp"
#include "imbrex/view.hpp"

namespace imbrex {

// s = s + bias[batch][head][query][key], of query and key by number, not by position: an additive mask, or a pair bias.
// bias (batch or 1, q_heads or 1, Sq or 1, Sk or 1) of float, bf16, f16 or double; an axis of size 1 serves all. A bias of -inf
// hides the key from the query; any finite one, however negative, does not.
// Cost: a load per score. Rows of 2^k bytes that share few cache sets cost more (13 or 35 of the 256 cycles that a vector of 16
// scores takes at D=128 in f32; AMD Zen 4, g++ 12, 2026-11-30).
template <element E>
struct bias_tensor {
    static constexpr score_stage stage = score_stage::bias;

    constexpr explicit bias_tensor(score_view<E const> view) noexcept
        : data_{view.data}, shape_{view.shape}, strides_{strides_of(view)} {}
    constexpr explicit bias_tensor(score_view<E> view) noexcept requires(!std::is_const_v<E>)
        : bias_tensor{score_view<E const>{view.data, view.shape, view.strides}} {}

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        using H = std::remove_cvref_t<decltype(ctx.head())>;
        if constexpr (is_lanes<Q> && is_lanes<K> && !is_lanes<H>) {
            using T = typename scalar_of<S>::type;
            auto const i = q.get(0), j = kv.get(0);
            if (xsimd::all(kv == K(j)) && xsimd::all(q == positions_from<T>(i, 1))) {    // one key, a query per lane
                auto const* const first = at(ctx.batch, ctx.head(), i - ctx.query_offset(), j);
                if (strides_.key == 1 && j % keys_a_line == 0) prefetch_rows<static_cast<int>(S::size)>(first + keys_a_line);
                return biased<S>(s, strided_lanes<S>(first, strides_.query));
            }
        }
        index const b = ctx.batch, offset = ctx.query_offset();
        auto const one = [&](index h, index i, index j) noexcept { return element_as<S>(*at(b, h, i - offset, j)); };
        return biased<S>(s, lanewise_score<S>(one, ctx.head(), q, kv));
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
    static constexpr score_strides strides_of(score_view<E const> const& v) noexcept {
        return {v.shape.batch == 1 ? 0 : v.strides.batch, v.shape.heads == 1 ? 0 : v.strides.head,
                v.shape.q_tokens == 1 ? 0 : v.strides.query, v.shape.kv_tokens == 1 ? 0 : v.strides.key};
    }
    IMBREX_ALWAYS_INLINE storage_of<E> const* at(index b, index h, index i, index j) const noexcept {
        return as_storage(data_) + (b * strides_.batch + h * strides_.head + i * strides_.query + j * strides_.key);
    }

    // Asks for the next line of each row a line ahead: no hardware prefetcher follows as many rows as a tile has.
    static constexpr index keys_a_line = 64 / static_cast<index>(sizeof(E));
    template <int Rows>
    IMBREX_ALWAYS_INLINE void prefetch_rows(storage_of<E> const* p) const noexcept {
        _Pragma("GCC unroll 1") for (int i = 0; i < Rows; ++i, p += strides_.query) prefetch(p);
    }

    E const* data_;
    score_shape shape_;
    score_strides strides_;
};

template <class E>
bias_tensor(score_view<E>) -> bias_tensor<std::remove_const_t<E>>;

}    // namespace imbrex
