// Where new tokens go: from a token of a sequence to its place in a cache's tensors, as the kv sources read them.
//
//   of(cache, sequence, token)            its slot
//   check(cache, sequence, first, count)  whether tokens [first, first + count) have one
#pragma once

#include "imbrex/kv/paged.hpp"
#include "imbrex/status.hpp"

namespace imbrex {

// Where a row stands in a cache's tensors: the entry of the first axis (a sequence, or a page) and the token of the second.
struct cache_slot {
    index entry = 0;
    index token = 0;
};

// Token t of sequence s, counted from its beginning, is token t of entry s.
struct dense_slots {
    constexpr cache_slot of(shape4 const&, index sequence, index token) const noexcept { return {sequence, token}; }
    constexpr status check(shape4 const& cache, index sequence, index first, index count) const noexcept {
        if (sequence >= cache.batch) return {errc::append_shape, tensor_role::key, sequence + 1, cache.batch};
        return first + count > cache.tokens ? status{errc::append_beyond, sequence, first + count, cache.tokens} : status{};
    }
};

// It is token t % size of entry s, size being the cache's tokens: later ones take the place of earlier ones.
struct ring_slots {
    constexpr cache_slot of(shape4 const& cache, index sequence, index token) const noexcept {
        return {sequence, token % cache.tokens};
    }
    constexpr status check(shape4 const& cache, index sequence, index, index count) const noexcept {
        if (sequence >= cache.batch) return {errc::append_shape, tensor_role::key, sequence + 1, cache.batch};
        return cache.tokens < 1 ? status{errc::page_size, count} : status{};
    }
};

// It is token t % page size of page table[s][t / page size]; the cache's tensors are (pages, page size, kv_heads, head_dim).
struct paged_slots {
    block_table table;

    constexpr cache_slot of(shape4 const& cache, index sequence, index token) const noexcept {
        auto const at = static_cast<std::size_t>(table.first(sequence) + token / cache.tokens);
        return {table.ids[at], token % cache.tokens};
    }
    constexpr status check(shape4 const& cache, index sequence, index first, index count) const noexcept {
        if (cache.tokens < 1) return {errc::page_size, count};
        if (!table.starts.empty() && std::ssize(table.starts) < sequence + 2)
            return {errc::table_lists, std::ssize(table.starts), sequence + 2};
        if (table.first(sequence) < 0 || table.count(sequence) < 0)
            return {errc::table_order, sequence, table.first(sequence), table.count(sequence)};
        index const begin = first / cache.tokens, end = (first + count + cache.tokens - 1) / cache.tokens;
        return table.check(sequence, begin, end, cache.batch);
    }
};

}    // namespace imbrex
