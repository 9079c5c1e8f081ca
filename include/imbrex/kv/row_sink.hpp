// Where rows of numbers are written: caches in dense tensors, of any encoding, and whatever else takes a row at a time.
#pragma once

#include <array>

#include "imbrex/kv/encode.hpp"
#include "imbrex/kv/slots.hpp"
#include "imbrex/tensor_facts.hpp"

namespace imbrex {

// Where keys or values go whose encoding needs nothing beside the rows: elements and ggml's blocks.
// rows: (batch, tokens, kv_heads, row_units<E>(head_dim)), strides in E's.
template <kv_element E>
    requires(!side_scaled<E>)
struct encoded_rows {
    tensor_view<E> rows;
};
template <class E>
encoded_rows(tensor_view<E>) -> encoded_rows<E>;

// int8 or int4 with scales that the writer finds: one for each `group` numbers of a row (a divisor of head_dim).
// scales: (batch, tokens, kv_heads, head_dim / group).
template <side_scaled E>
struct group_scaled_rows {
    tensor_view<E> rows;
    tensor_view<float> scales;
    index group = 0;
};
template <class E>
group_scaled_rows(tensor_view<E>, tensor_view<float>, index) -> group_scaled_rows<E>;

// int8 or int4 with one scale for each channel, found beforehand. scales: (1, 1, kv_heads, head_dim), read only.
template <side_scaled E>
struct channel_scaled_rows {
    tensor_view<E> rows;
    tensor_view<float const> scales;
};
template <class E>
channel_scaled_rows(tensor_view<E>, tensor_view<float const>) -> channel_scaled_rows<E>;

}    // namespace imbrex

IMBREX_ISA_BEGIN

// Takes one row of n floats at a time, for an entry and a token that the shape of the cache has.
template <class S>
concept row_sink = requires(S const& s, cache_slot at, index i, float const* row) {
    { s.shape() } -> std::same_as<shape4>;    // of the cache; head_dim in numbers
    { s.check(tensor_role::key) } -> std::same_as<status>;
    s.write(at, i, row, i);    // slot, kv head, row, n
};

template <class E>
constexpr shape4 numbers_of(tensor_view<E> rows) noexcept {
    shape4 shape = rows.shape;
    shape.head_dim *= values_per_unit<E>;
    return shape;
}

template <class E>
status check_rows(tensor_view<E> const& t, tensor_role role) noexcept {
    tensor_facts const facts = tensor_facts::of(t);
    if (t.strides.dim != 1) return {errc::dim_stride, role, t.strides.dim};
    if (status const s = detail::check_sizes(facts, role); !s) return s;
    return detail::check_memory(facts, role);
}

// Rows that are written: each has memory of its own.
template <class E>
status check_written_rows(tensor_view<E> const& t, tensor_role role) noexcept {
    if (status const s = check_rows(t, role); !s) return s;
    return detail::check_distinct(tensor_facts::of(t), role);
}

// The same with scales beside them, of this shape.
template <class To>
status check_scaled_rows(To const& to, shape4 const& scales, tensor_role role) noexcept {
    if (to.scales.shape != scales || to.scales.strides.dim != 1)
        return {errc::scales_shape, role, to.scales.shape.elements(), scales.elements()};
    if (status const s = detail::check_memory(tensor_facts::of(to.scales), role); !s) return s;
    return check_written_rows(to.rows, role);
}

// Whether rows that are written with scales beside them, written too, share memory with another tensor.
template <class To>
bool touch(To const& to, tensor_facts const& other) noexcept {
    return detail::rows_meet(tensor_facts::of(to.rows), other) || detail::rows_meet(tensor_facts::of(to.scales), other);
}

// Rows, and their scales where they have some.
using cache_tensors = std::array<tensor_facts, 2>;

template <class E>
struct row_writer;

template <class E>
struct row_writer<encoded_rows<E>> {
    encoded_rows<E> to;

    shape4 shape() const noexcept { return numbers_of(to.rows); }
    status check(tensor_role role) const noexcept { return check_written_rows(to.rows, role); }
    bool touches(tensor_facts const& other) const noexcept { return detail::rows_meet(tensor_facts::of(to.rows), other); }
    cache_tensors tensors() const noexcept { return {tensor_facts::of(to.rows), {}}; }
    void write(cache_slot at, index head, float const* row, index n) const noexcept {
        encode_row(row, n, to.rows.row(at.entry, at.token, head));
    }
};

template <class E>
struct row_writer<group_scaled_rows<E>> {
    group_scaled_rows<E> to;

    shape4 shape() const noexcept { return numbers_of(to.rows); }
    status check(tensor_role role) const noexcept {
        shape4 const rows = shape();
        if (to.group < values_per_unit<E> || to.group % values_per_unit<E> != 0 || rows.head_dim % to.group != 0)
            return {errc::group_not_whole, role, rows.head_dim, to.group};
        shape4 const needed{rows.batch, rows.tokens, rows.heads, rows.head_dim / to.group};
        if (status const s = check_scaled_rows(to, needed, role); !s) return s;
        return detail::check_distinct(tensor_facts::of(to.scales), role);
    }
    bool touches(tensor_facts const& other) const noexcept { return touch(to, other); }
    cache_tensors tensors() const noexcept { return {tensor_facts::of(to.rows), tensor_facts::of(to.scales)}; }
    void write(cache_slot at, index head, float const* row, index n) const noexcept {
        encode_row(row, n, to.rows.row(at.entry, at.token, head), to.scales.row(at.entry, at.token, head), to.group);
    }
};

template <class E>
struct row_writer<channel_scaled_rows<E>> {
    channel_scaled_rows<E> to;

    shape4 shape() const noexcept { return numbers_of(to.rows); }
    status check(tensor_role role) const noexcept { return check_scaled_rows(to, {1, 1, shape().heads, shape().head_dim}, role); }
    bool touches(tensor_facts const& other) const noexcept { return detail::rows_meet(tensor_facts::of(to.rows), other); }
    cache_tensors tensors() const noexcept { return {tensor_facts::of(to.rows), tensor_facts::of(to.scales)}; }
    void write(cache_slot at, index head, float const* row, index n) const noexcept {
        encode_row(row, n, to.rows.row(at.entry, at.token, head), side_scales{to.scales.row(0, 0, head), 1});
    }
};

// A destination as a row_sink: itself, or the writer of its dense tensors.
template <class To>
IMBREX_ALWAYS_INLINE auto sink_of(To const& to) noexcept {
    static_assert(row_sink<To> || row_sink<row_writer<To>>,
                  "imbrex: wrap the cache in encoded_rows{view}, group_scaled_rows{view, scales, group} or "
                  "channel_scaled_rows{view, scales}, which say how rows are written; or give the writer what row_sink asks for");
    if constexpr (row_sink<To>)
        return to;
    else
        return row_writer<To>{to};
}

IMBREX_ISA_END
