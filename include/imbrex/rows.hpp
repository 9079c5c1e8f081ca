// Encoded rows: what a kv source hands to a unit.
#pragma once

#include "imbrex/config.hpp"

namespace imbrex {

// Token j's row starts at data + j * stride; its elements are contiguous.
template <class E>
struct rows {
    E const* data = nullptr;
    index stride = 0;

    constexpr E const* row(index j) const noexcept { return data + j * stride; }
    constexpr rows from(index j) const noexcept { return {data + j * stride, stride}; }
};

// Keys and values of one window.
template <class K, class V>
struct kv_tile {
    rows<K> keys;
    rows<V> values;
};

}    // namespace imbrex
