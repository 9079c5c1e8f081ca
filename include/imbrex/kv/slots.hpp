// Where new tokens go: from a token of a sequence to its place in a cache's tensors, as the kv sources read them.
//
//   of(cache, sequence, token)            its slot
//   check(cache, sequence, first, count)  whether tokens [first, first + count) have one
//   check_apart(cache, batch, count, first)  optional: whether no two of the tokens [first(s), first(s) + count) of all sequences
//                                         share one
#pragma once

#include <algorithm>

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
    // Two sequences may share a page, but only what both have read; who appends to it needs a copy. A page that was seen sets a
    // bit of a small map, and only one whose bit is set already is looked for among those before.
    template <class First>
    status check_apart(shape4 const& cache, index batch, index count, First const& first) const noexcept {
        if (batch == 1 && count == 1) return {};
        std::uint64_t seen[256] = {};
        for (index s = 0; s < batch && count > 0; ++s) {
            index const begin = first(s) / cache.tokens, end = (first(s) + count - 1) / cache.tokens + 1;
            for (index page = begin; page < end; ++page) {
                auto const bit = static_cast<std::uint32_t>(id_of(s, page)) * 0x9e3779b1u >> 18;
                std::uint64_t const mask = std::uint64_t{1} << (bit % 64);
                if ((seen[bit / 64] & mask) != 0) {
                    index const other = sequence_that_writes(cache.tokens, s, page, count, first);
                    if (other >= 0) return {errc::append_shared_slot, s, other, id_of(s, page)};
                }
                seen[bit / 64] |= mask;
            }
        }
        return {};
    }

private:
    constexpr position id_of(index sequence, index page) const noexcept {
        return table.ids[static_cast<std::size_t>(table.first(sequence) + page)];
    }
    // A sequence up to s that writes a slot of this page of s before s does; -1: none.
    template <class First>
    index sequence_that_writes(index size, index s, index page, index count, First const& first) const noexcept {
        auto const begins = [&](index of, index at) { return std::max<index>(first(of) - at * size, 0); };
        auto const ends = [&](index of, index at) { return std::min(first(of) + count - at * size, size); };
        for (index r = 0; r <= s; ++r) {
            index const end = r == s ? page : (first(r) + count - 1) / size + 1;
            for (index p = first(r) / size; p < end; ++p) {
                if (id_of(r, p) == id_of(s, page) && begins(r, p) < ends(s, page) && begins(s, page) < ends(r, p)) return r;
            }
        }
        return -1;
    }
};

}    // namespace imbrex
