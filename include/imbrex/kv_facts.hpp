// What the checks are told of each kv source.
#pragma once

#include "imbrex/checks.hpp"
#include "imbrex/kv/dense.hpp"
#include "imbrex/kv/packed.hpp"
#include "imbrex/kv/paged.hpp"
#include "imbrex/kv/ring.hpp"
#include "imbrex/kv/scaled.hpp"
#include "imbrex/kv/two_part.hpp"

namespace imbrex {

template <class K, class V>
kv_facts facts_of_kv(dense_source<K, V> const& s) noexcept {
    kv_facts f{tensor_facts::of(s.k), tensor_facts::of(s.v)};
    f.starts = s.starts;
    return f;
}

template <class K, class V>
kv_facts facts_of_kv(paged_source<K, V> const& s) noexcept {
    kv_facts f{tensor_facts::of(s.k), tensor_facts::of(s.v)};
    f.kind = kv_kind::paged;
    f.lengths = s.lengths;
    f.table = s.table;
    return f;
}

template <class K, class V>
kv_facts facts_of_kv(ring_source<K, V> const& s) noexcept {
    kv_facts f{tensor_facts::of(s.k), tensor_facts::of(s.v)};
    f.kind = kv_kind::ring;
    f.lengths = s.lengths;
    return f;
}

template <class K, class V>
kv_facts facts_of_kv(two_part_source<K, V> const& s) noexcept {
    kv_facts f{tensor_facts::of(s.suffix.k), tensor_facts::of(s.suffix.v)};
    f.kind = kv_kind::two_part;
    f.prefix_k = tensor_facts::of(s.prefix.k);
    f.prefix_v = tensor_facts::of(s.prefix.v);
    f.lengths = s.lengths;
    return f;
}

template <class Codes, class Scales>
kv_facts facts_of_kv(scaled_source<Codes, Scales> const& s) noexcept {
    kv_facts f = facts_of_kv(s.codes);
    bool const keys = has_side_scales<typename scaled_source<Codes, Scales>::key_rows>;
    bool const values = has_side_scales<typename scaled_source<Codes, Scales>::value_rows>;
    auto const of = [](tensor_view<float const> const& t, bool needed) {
        return scale_facts{tensor_facts::of(t), needed ? scales_needed::yes : scales_needed::no};
    };
    bool const parts = f.kind == kv_kind::two_part;
    f.scales.k = of(s.given.k_scales, keys);
    f.scales.v = of(s.given.v_scales, values);
    f.scales.prefix_k = of(s.given.prefix_k_scales, keys && parts);
    f.scales.prefix_v = of(s.given.prefix_v_scales, values && parts);
    return f;
}

}    // namespace imbrex
