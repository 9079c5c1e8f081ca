// A number added to each score, from a tensor of the caller's.
#pragma once

#include <type_traits>

#include "imbrex/rules/operands.hpp"
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

    // Of query q and n keys from kv on. Rows of 2^k bytes fall into one set of a cache: read key by key, 64 queries of them cost
    // a third of the time (S=2048, bf16); read row by row and transposed, 8 % (AMD Zen 4, g++ 12, 2026-11-30).
    using stages_rows = void;
    template <class V>
    V row(row_context<position> const& ctx, position q, position kv, int n) const noexcept {
        using T = typename scalar_of<V>::type;
        auto const* const from = at(ctx.batch, ctx.head(), q - ctx.query_offset(), kv);
        if constexpr (!std::is_same_v<storage_of<E>, double> || std::is_same_v<T, double>) {
            if (strides_.key == 1) return n == static_cast<int>(V::size) ? seam<T>::load(from) : seam<T>::load_first(from, n);
        }
        alignas(64) array_of<T, static_cast<int>(V::size)> x = {};
        for (int i = 0; i < n; ++i) x[i] = static_cast<T>(element_as<V>(from[i * strides_.key]));
        return V::load_aligned(x);
    }

    template <class Ctx, class S, class Q, class K>
    IMBREX_ALWAYS_INLINE S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        if constexpr (is_lanes<S>) {
            using T = typename scalar_of<S>::type;
            if (ctx.staged != nullptr) return biased<S>(s, S::load_aligned(static_cast<T const*>(ctx.staged)));
        }
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
        return operands::check_matrix(rule_operand::bias_tensor, data_, shape_, call);
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
