// What is refused, and why, before anything is read or written. Knows tensors as shapes, strides and addresses only.
#pragma once

#include "imbrex/kv/paged.hpp"
#include "imbrex/scale_checks.hpp"
#include "imbrex/sequences.hpp"
#include "imbrex/tensor_facts.hpp"

namespace imbrex {

enum class kv_kind { dense, paged, ring, two_part };

// Where keys and values lie, as far as it can be wrong. Of pages, batch and tokens are pages and slots; of two parts, k and v are
// the suffixes.
struct kv_facts {
    tensor_facts k{}, v{};
    kv_kind kind = kv_kind::dense;
    packed_starts starts{};                 // dense: of packed sequences
    std::span<position const> lengths{};    // the others: of each sequence
    block_table table{};                    // paged
    tensor_facts prefix_k{}, prefix_v{};    // two parts
    kv_scale_facts scales{};
};

// All that a call can get wrong. row_sums: the log-sum-exp; address 0: not wanted.
struct call_facts {
    tensor_facts q{}, out{}, row_sums{};
    packed_starts q_starts{};
    kv_facts kv{};
};

namespace detail {

// Starts must rise from 0 or more to the tensor's tokens at most.
IMBREX_NOINLINE inline status check_starts(tensor_facts const& t, tensor_role role, packed_starts const& starts) noexcept {
    if (!starts) return {};
    if (t.shape.batch != 1) return {errc::packed_batch, role, t.shape.batch};
    if (starts->empty()) return {errc::starts_missing, role};
    if (std::ssize(*starts) - 1 > max_length) return {errc::too_many, role, std::ssize(*starts) - 1, max_length};
    position before = 0;
    for (std::size_t i = 0; i < starts->size(); ++i) {
        position const start = (*starts)[i];
        if (start < before) return {errc::starts_order, role, start, static_cast<std::int64_t>(i)};
        before = start;
    }
    if (before > t.shape.tokens) return {errc::starts_beyond, role, before, t.shape.tokens};
    return {};
}

IMBREX_NOINLINE inline status check_batch(tensor_facts const& k, tensor_facts const& v, index sequences) noexcept {
    using enum tensor_role;
    if (k.shape.batch != sequences && k.shape.batch != 1) return {errc::batch_mismatch, key, k.shape.batch, sequences};
    if (v.shape.batch != sequences && v.shape.batch != 1) return {errc::batch_mismatch, value, v.shape.batch, sequences};
    return {};
}

inline status check_dense_kv(kv_facts const& kv, index sequences) noexcept {
    using enum tensor_role;
    if (!kv.starts) return check_batch(kv.k, kv.v, sequences);
    if (status const s = check_starts(kv.k, key, kv.starts); !s) return s;
    if (kv.v.shape.batch != 1) return {errc::packed_batch, value, kv.v.shape.batch};
    index const of_keys = std::ssize(*kv.starts) - 1;
    return of_keys == sequences ? status{} : status{errc::sequence_count, key, of_keys, sequences};
}

// A length for each sequence, none more than `most` tokens.
IMBREX_NOINLINE inline status check_lengths(kv_facts const& kv, index sequences, index most) noexcept {
    if (std::ssize(kv.lengths) != sequences) return status{errc::lengths_count, std::ssize(kv.lengths), sequences};
    for (index s = 0; s < sequences; ++s) {
        position const n = kv.lengths[static_cast<std::size_t>(s)];
        if (n < 0 || n > most) return status{errc::length_range, n, s, most};
    }
    return {};
}

// The pages that each length needs: as many ids, each of a page of the pool.
IMBREX_NOINLINE inline status check_pages(kv_facts const& kv, index sequences) noexcept {
    index const pages = kv.k.shape.batch, page_size = kv.k.shape.tokens;
    if (kv.v.shape.batch != pages) return status{errc::page_count, pages, kv.v.shape.batch};
    if (status const s = check_lengths(kv, sequences, max_length); !s) return s;
    block_table const& table = kv.table;
    bool const lists = !table.starts.empty();
    if (!lists && table.width > max_length)    // no overflow below
        return status{errc::table_ids, 0, table.width, std::ssize(table.ids)};
    if (lists && std::ssize(table.starts) != sequences + 1)
        return status{errc::table_lists, std::ssize(table.starts), sequences + 1};
    index before = 0;
    for (index s = 0; s < sequences; ++s) {
        index const length = kv.lengths[static_cast<std::size_t>(s)];
        index const first = table.first(s), given = table.count(s);
        if (first < before || given < 0) return status{errc::table_order, s, first, given};
        before = first;
        if (length == 0) continue;
        if (page_size == 0) return status{errc::page_size, length};
        if (status const found = table.check(s, 0, (length + page_size - 1) / page_size, pages); !found) return found;
    }
    return {};
}

inline status check_ring(kv_facts const& kv, index sequences) noexcept {
    if (status const s = check_batch(kv.k, kv.v, sequences); !s) return s;
    if (status const s = check_lengths(kv, sequences, max_length); !s) return s;
    if (kv.k.shape.tokens > 0) return {};
    for (position const n : kv.lengths) {
        if (n > 0) return status{errc::page_size, n};
    }
    return {};
}

IMBREX_NOINLINE inline status check_two_parts(kv_facts const& kv, index sequences) noexcept {
    using enum tensor_role;
    tensor_facts const& k = kv.prefix_k;
    tensor_facts const& v = kv.prefix_v;
    if (status const s = check_sizes(k, key); !s) return s;
    if (status const s = check_sizes(v, value); !s) return s;
    if (status const s = check_batch(k, v, sequences); !s) return s;
    if (status const s = check_batch(kv.k, kv.v, sequences); !s) return s;
    if (k.shape.tokens != v.shape.tokens) return status{errc::kv_tokens_mismatch, k.shape.tokens, v.shape.tokens};
    index const prefix[] = {k.shape.heads, v.shape.heads, k.row_numbers(), v.row_numbers()};
    index const suffix[] = {kv.k.shape.heads, kv.v.shape.heads, kv.k.row_numbers(), kv.v.row_numbers()};
    for (int i = 0; i < 4; ++i) {
        if (prefix[i] != suffix[i]) return status{errc::prefix_mismatch, i, prefix[i], suffix[i]};
    }
    if (status const s = check_memory(k, key); !s) return s;
    if (status const s = check_memory(v, value); !s) return s;
    return check_lengths(kv, sequences, std::min(kv.k.shape.tokens, max_length - k.shape.tokens));
}

// As many sequences of keys as of queries, or one that serves all.
inline status check_sequences(call_facts const& c) noexcept {
    if (status const s = check_starts(c.q, tensor_role::query, c.q_starts); !s) return s;
    index const sequences = sequence_side{c.q.shape, c.q_starts}.sequences();
    switch (c.kv.kind) {
        case kv_kind::dense: return check_dense_kv(c.kv, sequences);
        case kv_kind::paged: return check_pages(c.kv, sequences);
        case kv_kind::ring: return check_ring(c.kv, sequences);
        case kv_kind::two_part: return check_two_parts(c.kv, sequences);
    }
    return {};
}

// What is written lies apart from the sequence starts, lengths and page ids, which are read all along.
IMBREX_NOINLINE inline status check_numbers_apart(tensor_facts const& written, call_facts const& c) noexcept {
    using enum tensor_role;
    if (c.q_starts && share_memory(written, tensor_facts::of(*c.q_starts))) return {errc::starts_overlap, query};
    if (c.kv.starts && share_memory(written, tensor_facts::of(*c.kv.starts))) return {errc::starts_overlap, key};
    for (auto const& numbers : {c.kv.lengths, c.kv.table.ids, c.kv.table.starts}) {
        if (share_memory(written, tensor_facts::of(numbers))) return {errc::starts_overlap, key};
    }
    return {};
}

struct named_facts {
    tensor_facts const* facts;
    tensor_role role;
};

// The tensors of a call that are read.
struct inputs_of {
    named_facts all[9];

    explicit inputs_of(call_facts const& c) noexcept
        : all{{&c.q, tensor_role::query},
              {&c.kv.k, tensor_role::key},
              {&c.kv.v, tensor_role::value},
              {&c.kv.prefix_k, tensor_role::key},
              {&c.kv.prefix_v, tensor_role::value},
              {&c.kv.scales.k.t, tensor_role::key},
              {&c.kv.scales.v.t, tensor_role::value},
              {&c.kv.scales.prefix_k.t, tensor_role::key},
              {&c.kv.scales.prefix_v.t, tensor_role::value}} {}
    // Those that the call has not are of no size.
    named_facts const* begin() const noexcept { return all; }
    named_facts const* end() const noexcept { return all + 9; }
};

inline status check_scales(kv_facts const& kv) noexcept {
    using enum tensor_role;
    if (status const s = check_scales_of(kv.k, kv.scales.k, key); !s) return s;
    if (status const s = check_scales_of(kv.v, kv.scales.v, value); !s) return s;
    if (status const s = check_prefix_scales(kv.prefix_k, kv.scales.prefix_k, kv.scales.k, key); !s) return s;
    return check_prefix_scales(kv.prefix_v, kv.scales.prefix_v, kv.scales.v, value);
}

IMBREX_NOINLINE inline status check_shapes(call_facts const& c) noexcept {
    using enum tensor_role;
    shape4 const &q = c.q.shape, &k = c.kv.k.shape, &v = c.kv.v.shape, &out = c.out.shape;
    if (q.head_dim != c.kv.k.row_numbers()) return status{errc::head_dim_mismatch, q.head_dim, c.kv.k.row_numbers()};
    if (k.heads != v.heads) return status{errc::kv_heads_mismatch, k.heads, v.heads};
    if (k.tokens != v.tokens) return status{errc::kv_tokens_mismatch, k.tokens, v.tokens};
    if (status const s = check_sequences(c); !s) return s;
    if (q.heads != 0 && (k.heads == 0 || q.heads % k.heads != 0)) return status{errc::heads_not_divisible, q.heads, k.heads};
    index const expected[] = {q.batch, q.tokens, q.heads, c.kv.v.row_numbers()};
    index const actual[] = {out.batch, out.tokens, out.heads, out.head_dim};
    for (int i = 0; i < 4; ++i) {
        if (actual[i] != expected[i]) return status{errc::output_shape, i, actual[i], expected[i]};
    }
    return {};
}

}    // namespace detail

// The workspace must be apart from all tensors of the call.
inline status check_workspace(std::byte const* data, std::size_t bytes, call_facts const& c) noexcept {
    using enum tensor_role;
    tensor_facts const workspace{
        reinterpret_cast<std::uintptr_t>(data), 1, 1, {1, static_cast<index>(bytes), 1, 1}, {0, 1, 0, 1}};
    detail::footprint const own{workspace};
    auto const crosses = [&](tensor_facts const& t) {
        if (t.address == 0) return false;
        detail::footprint const f{t};
        return !f.empty() && f.first < own.last && own.first < f.last;
    };
    for (auto const& t : detail::inputs_of{c}) {
        if (crosses(*t.facts)) return {errc::workspace_overlap, t.role};
    }
    if (crosses(c.out)) return {errc::workspace_overlap, output};
    if (crosses(c.row_sums)) return {errc::workspace_overlap, lse};
    return detail::check_numbers_apart(workspace, c);
}

// Everything that a call's tensors can get wrong.
inline status check_call(call_facts const& c) noexcept {
    using enum tensor_role;
    using namespace detail;
    named_facts const tensors[] = {{&c.q, query}, {&c.kv.k, key}, {&c.kv.v, value}, {&c.out, output}};
    for (auto const& t : tensors) {
        if (status const s = check_sizes(*t.facts, t.role); !s) return s;
    }
    if (status const s = check_shapes(c); !s) return s;
    for (auto const& t : tensors) {
        if (status const s = check_memory(*t.facts, t.role); !s) return s;
    }
    if (status const s = check_scales(c.kv); !s) return s;
    if (status const s = check_distinct(c.out, output); !s) return s;
    for (auto const& t : inputs_of{c}) {
        if (share_memory(c.out, *t.facts)) return {errc::output_overlaps_input, t.role};
    }
    if (status const s = check_numbers_apart(c.out, c); !s) return s;
    if (c.row_sums.address == 0) return {};
    if (status const s = check_memory(c.row_sums, lse); !s) return s;
    if (status const s = check_distinct(c.row_sums, lse); !s) return s;
    for (auto const& t : inputs_of{c}) {
        if (share_memory(c.row_sums, *t.facts)) return {errc::lse_overlap, t.role};
    }
    if (share_memory(c.row_sums, c.out)) return {errc::lse_overlap, output};
    return check_numbers_apart(c.row_sums, c);
}

}    // namespace imbrex
