// The dtype policy: what q, k, v and the output are stored as, and what scores and sums are computed in. Keys and values may be
// encoded besides (encoding.hpp).
#pragma once

#include "imbrex/encoding.hpp"
#include "imbrex/products.hpp"

namespace imbrex {

// Element types are the library's own storage types (see storage_of). Scores, weights and sums are f32, or f64 when everything
// is f64, which is a checking aid of plain speed. 16-bit elements are widened exactly: in registers in
// decode, a tile at a time into scratch in prefill (2-4 % of the time, D=128, AMD Zen 4).
template <element Q, kv_stored K = Q, kv_stored V = K, element O = Q, products M = products::as_stored>
struct precision {
    using query = storage_of<Q>;
    using key = kv_storage_of<K>;
    using value = kv_storage_of<V>;
    using output = storage_of<O>;
    using score = std::conditional_t<std::is_same_v<query, double>, double, float>;

    static constexpr products by = M;

    static constexpr int doubles = std::is_same_v<query, double> + std::is_same_v<key, double> + std::is_same_v<value, double> +
                                   std::is_same_v<output, double>;
    static_assert(doubles == 0 || doubles == 4,
                  "imbrex: f64 goes only with f64; make query, key, value and output all double, or none of them");
};

template <class P>
concept precision_policy = requires {
    typename P::query;
    typename P::key;
    typename P::value;
    typename P::output;
    typename P::score;
};

// Whether products may be of bf16 with weights rounded to it: where all is bf16 but products are not widened. Outputs wider than
// bf16 would show the rounding.
template <class P>
inline constexpr bool rounds_weights_to_bf16 =
    std::is_same_v<typename P::query, bf16>&& std::is_same_v<typename P::key, bf16>&& std::is_same_v<typename P::value, bf16>&&
        std::is_same_v<typename P::output, bf16>&& products_of<P> != products::widened;

// Whether all is f16, and products may be of the sums of bf16 that it is.
template <class P>
inline constexpr bool all_f16 =
    std::is_same_v<typename P::query, f16>&& std::is_same_v<typename P::key, f16>&& std::is_same_v<typename P::value, f16>&&
        std::is_same_v<typename P::output, f16>&& products_of<P> != products::widened;

}    // namespace imbrex
