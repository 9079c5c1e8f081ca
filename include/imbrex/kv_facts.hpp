// What the checks are told of each kv source.
#pragma once

#include "imbrex/checks.hpp"
#include "imbrex/kv/dense.hpp"
#include "imbrex/kv/packed.hpp"
#include "imbrex/kv/paged.hpp"
#include "imbrex/kv/ring.hpp"
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
    f.page_ids = s.table.ids;
    f.pages_each = s.table.width;
    f.page_starts = s.table.starts;
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

}    // namespace imbrex
