// Keys and values in pages of a pool, as block tables tell (Kwon et al. 2023, PagedAttention, arXiv:2309.06180).
#pragma once

#include <algorithm>

#include "imbrex/kv/source.hpp"
#include "imbrex/status.hpp"

namespace imbrex {

// The pages of each sequence, in the order of its tokens. Either a matrix, `width` ids a sequence; or, with `starts`, lists one
// after another: sequence s has ids[starts[s]] up to ids[starts[s + 1]]. Only the ids that a sequence's length needs are read.
struct block_table {
    std::span<position const> ids{};
    index width = 0;
    std::span<position const> starts{};

    constexpr index first(index sequence) const noexcept {
        return starts.empty() ? sequence * width : starts[static_cast<std::size_t>(sequence)];
    }
    constexpr index count(index sequence) const noexcept {
        return starts.empty() ? width : starts[static_cast<std::size_t>(sequence) + 1] - first(sequence);
    }
    // Whether a sequence's pages [begin, end) are there, and each is one of a pool of so many.
    constexpr status check(index sequence, index begin, index end, index pages) const noexcept {
        index const at = first(sequence);
        if (end > count(sequence)) return {errc::table_width, sequence, end, count(sequence)};
        if (at + end > std::ssize(ids)) return {errc::table_ids, sequence, at + end, std::ssize(ids)};
        for (index i = at + begin; i < at + end; ++i) {
            position const id = ids[static_cast<std::size_t>(i)];
            if (id < 0 || id >= pages) return {errc::page_id, i, id, pages};
        }
        return {};
    }
};

// k (pages, page size, kv_heads, head_dim), v (pages, page size, kv_heads, head_dim_v): bshd(...) views pages that are laid out
// [pages, page size, heads, head_dim], bhsd(...) those of [pages, heads, page size, head_dim]. Any page size from 1 on. Sequence
// s has lengths[s] tokens: token t is slot t % page size of its page t / page size. Sequences may share pages. Slots beyond the
// length, and pages that no sequence has, are never used. Ids of pages that a window leaves out must be valid all the same.
template <class K, class V = K>
struct paged_kv {
    tensor_view<K const> k;
    tensor_view<V const> v;
    block_table table;
    std::span<position const> lengths;
};

template <class K, class V>
paged_kv(tensor_view<K>, tensor_view<V>, block_table, std::span<position const>)
    -> paged_kv<std::remove_const_t<K>, std::remove_const_t<V>>;

template <class K, class V>
struct paged_source {
    using key_rows = paged_rows<K>;
    using value_rows = paged_rows<V>;

    tensor_view<K const> k;
    tensor_view<V const> v;
    block_table table;
    std::span<position const> lengths;
    page_division page_size{};

    constexpr sequence_side sequences() const noexcept { return sequence_side{lengths}; }
    constexpr index heads() const noexcept { return k.shape.heads; }
    constexpr index head_dim() const noexcept { return k.shape.head_dim * values_per_unit<K>; }
    constexpr index head_dim_v() const noexcept { return v.shape.head_dim * values_per_unit<V>; }
    constexpr bool lies_apart() const noexcept { return lies_apart(k) || lies_apart(v); }
    constexpr kv_head<key_rows, value_rows> head(index sequence, index at) const noexcept {
        if (sequences().of(sequence).count == 0) return {};
        return {in_pages(k, sequence, at), in_pages(v, sequence, at)};
    }

private:
    // Whether the rows that lie together in a page are too few for the hardware's prefetchers: pages of 16 tokens, 8 kv heads,
    // D=128, then reach 0.54-0.75 of dense instead of 0.31-0.41, of 64 tokens 0.68-0.85 instead of 0.44-0.59 (f32 and bf16, AMD
    // Zen 4, g++ 12, 2026-12-01).
    template <class E>
    static constexpr bool lies_apart(tensor_view<E const> const& t) noexcept {
        constexpr index enough_bytes = 65536;
        return t.strides.token != t.shape.head_dim ||
               t.shape.tokens * t.shape.head_dim * static_cast<index>(sizeof(E)) < enough_bytes;
    }
    template <class E>
    constexpr paged_rows<E> in_pages(tensor_view<E const> const& t, index sequence, index head) const noexcept {
        return {t.row(0, 0, t.shape.heads == 1 ? 0 : head), table.ids.data() + table.first(sequence),
                t.shape.batch == 1 ? 0 : t.strides.batch, t.shape.tokens == 1 ? 0 : t.strides.token, page_size};
    }
};

template <class K, class V>
auto source_of(paged_kv<K, V> const& kv) noexcept {
    return paged_source<kv_storage_of<K>, kv_storage_of<V>>{storage_view(kv.k), storage_view(kv.v), kv.table, kv.lengths,
                                                            page_division{std::clamp<index>(kv.k.shape.tokens, 1, max_length)}};
}

}    // namespace imbrex
