// Writes new tokens' keys and values into a cache, encoded, with the keys turned by their positions on the way.
// Each new row is read once and written once. A cache is anything that is a row_sink; here are those in dense tensors.
#pragma once

#include <array>
#include <span>

#include "imbrex/kv/encode.hpp"
#include "imbrex/kv/rope.hpp"
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

struct append_options {
    // Where each sequence's first new token goes, counted from the sequence's beginning: one a sequence, or one for all. There is
    // no default: in a cache that has something, 0 would be lost tokens.
    std::span<position const> first{};
    rope turn{};    // of the keys
    // Positions to turn by: one a new token, for all sequences alike, or batch x tokens; none: tokens' places in their sequence.
    std::span<position const> positions{};

    constexpr index first_of(index sequence) const noexcept {
        return first.empty() ? 0 : first[first.size() == 1 ? 0 : static_cast<std::size_t>(sequence)];
    }
    constexpr position position_of(index sequence, index token, index tokens) const noexcept {
        if (positions.empty()) return static_cast<position>(first_of(sequence) + token);
        index const at = std::ssize(positions) == tokens ? token : sequence * tokens + token;
        return positions[static_cast<std::size_t>(at)];
    }

    // For `batch` sequences of `tokens` new tokens each.
    status check(index batch, index tokens, index head_dim) const noexcept {
        bool const lacks_first = first.empty() && batch > 0 && tokens > 0;
        if (lacks_first || (first.size() > 1 && std::ssize(first) != batch))
            return {errc::append_first, std::ssize(first), batch};
        if (!positions.empty() && std::ssize(positions) != tokens && std::ssize(positions) != batch * tokens)
            return {errc::append_positions, std::ssize(positions), tokens};
        position lowest = 0, highest = 0;
        for (index s = 0; s < batch; ++s) {
            index const begin = first_of(s), end = begin + tokens;
            if (begin < 0 || end > max_length) return {errc::append_beyond, s, begin < 0 ? begin : end, max_length};
            for (index i = 0; i < tokens && turn.has_tables(); ++i) {
                lowest = std::min(lowest, position_of(s, i, tokens));
                highest = std::max(highest, position_of(s, i, tokens));
            }
        }
        return turn.check(head_dim, lowest, highest);
    }
};

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
constexpr status check_rows(tensor_view<E> const& t, tensor_role role) noexcept {
    if (t.strides.dim != 1) return {errc::dim_stride, role, t.strides.dim};
    if (t.data == nullptr && t.shape.elements() > 0) return {errc::null_data, role, t.shape.tokens};
    return {};
}

// The same of rows with scales beside them, of this shape.
template <class To>
constexpr status check_scaled_rows(To const& to, shape4 const& scales, tensor_role role) noexcept {
    if (to.scales.shape != scales || to.scales.strides.dim != 1)
        return {errc::scales_shape, role, to.scales.shape.elements(), scales.elements()};
    if (to.scales.data == nullptr && scales.elements() > 0) return {errc::null_data, role, to.rows.shape.tokens};
    return check_rows(to.rows, role);
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
    status check(tensor_role role) const noexcept { return check_rows(to.rows, role); }
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
        return check_scaled_rows(to, needed, role);
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

// Whether new rows fit a cache: as many heads, as long rows, and slots for them.
template <class Sink, class Slots>
status check_appended(tensor_role role, shape4 const& fresh, Sink const& to, append_options const& o,
                      Slots const& slots) noexcept {
    if (status const s = to.check(role); !s) return s;
    shape4 const cache = to.shape();
    if (fresh.heads != cache.heads) return {errc::append_shape, role, fresh.heads, cache.heads, 2};
    if (fresh.head_dim != cache.head_dim) return {errc::append_shape, role, fresh.head_dim, cache.head_dim, 3};
    if (fresh.head_dim > max_head_dim) return {errc::head_dim_range, role, fresh.head_dim, max_head_dim};
    for (index s = 0; s < fresh.batch && fresh.tokens > 0; ++s) {
        if (status const found = slots.check(cache, s, o.first_of(s), fresh.tokens); !found) return found;
    }
    auto const first = [&](index s) { return o.first_of(s); };
    if constexpr (requires { slots.check_apart(cache, fresh.batch, fresh.tokens, first); })
        return slots.check_apart(cache, fresh.batch, fresh.tokens, first);
    return {};
}

// Whether a cache that tells (`touches`) shares memory with the new rows, k and v.
template <class Sink>
status check_apart(tensor_role role, Sink const& to, tensor_facts const& k, tensor_facts const& v) noexcept {
    if constexpr (requires { to.touches(k); }) {
        if (to.touches(k)) return {errc::append_overlap, role, static_cast<std::int64_t>(tensor_role::key)};
        if (to.touches(v)) return {errc::append_overlap, role, static_cast<std::int64_t>(tensor_role::value)};
    }
    return {};
}

// Whether the caches of keys and values, as far as they tell, lie apart: neither writes what is of the other.
template <class Keys, class Values>
status check_caches_apart(Keys const& keys, Values const& values) noexcept {
    if constexpr (requires { keys.touches(values.tensors()[0]), values.touches(keys.tensors()[0]); }) {
        for (int i = 0; i < 2; ++i) {
            auto const at = static_cast<std::size_t>(i);
            if (keys.touches(values.tensors()[at]) || values.touches(keys.tensors()[at])) return {errc::append_caches_overlap};
        }
    }
    return {};
}

template <class S, class Sink>
void append_token(tensor_view<S> const& from, index batch, index token, cache_slot slot, rope_turn const* turn,
                  Sink const& to) noexcept {
    alignas(64) float row[max_head_dim];
    index const n = from.shape.head_dim;
    for (index head = 0; head < from.shape.heads; ++head) {
        widen_row(from.row(batch, token, head), n, row);
        if (turn != nullptr) turn->turn(row);
        to.write(slot, head, row, n);
    }
}

// Writes new tokens k (batch, tokens, kv_heads, head_dim) and v (.., head_dim_v), of f32, f16 or bf16, to caches of encodings
// that may differ. Slots say where a sequence's tokens lie: dense_slots, ring_slots or paged_slots{table}; those of k and v are
// the same. Refused are a cache that shares memory with k, v or the other cache (keys and values of one pool may interleave, but
// not lie on one another), and two tokens that go to one slot of a page. Of dense and ring caches each sequence has its own
// entry, and a ring keeps the last of more tokens than it has room for. Nothing is written unless the status is ok.
template <element S, class K, class V, class Slots>
status append(tensor_view<S> const& k, tensor_view<S> const& v, K const& to_k, V const& to_v, append_options const& o,
              Slots const& slots) noexcept {
    static_assert(!std::is_same_v<storage_of<S>, double>, "imbrex: append takes f32, f16 or bf16; convert the new rows first");
    auto const keys = storage_view(k), values = storage_view(v);
    auto const key_sink = sink_of(to_k);
    auto const value_sink = sink_of(to_v);
    auto const [batch, tokens, heads, head_dim] = keys.shape;
    if (status const s = check_rows(keys, tensor_role::key); !s) return s;
    if (status const s = check_rows(values, tensor_role::value); !s) return s;
    if (values.shape.batch != batch) return {errc::append_shape, tensor_role::value, values.shape.batch, batch};
    if (values.shape.tokens != tokens) return {errc::append_shape, tensor_role::value, values.shape.tokens, tokens, 1};
    if (status const s = o.check(batch, tokens, head_dim); !s) return s;
    if (status const s = check_appended(tensor_role::key, keys.shape, key_sink, o, slots); !s) return s;
    if (status const s = check_appended(tensor_role::value, values.shape, value_sink, o, slots); !s) return s;
    tensor_facts const fresh_k = tensor_facts::of(keys), fresh_v = tensor_facts::of(values);
    if (status const s = check_apart(tensor_role::key, key_sink, fresh_k, fresh_v); !s) return s;
    if (status const s = check_apart(tensor_role::value, value_sink, fresh_k, fresh_v); !s) return s;
    if (status const s = check_caches_apart(key_sink, value_sink); !s) return s;
    rope_turn turn;
    for (index b = 0; b < batch; ++b) {
        for (index i = 0; i < tokens; ++i) {
            index const token = o.first_of(b) + i;
            turn.to(o.turn, o.position_of(b, i, tokens));
            append_token(keys, b, i, slots.of(key_sink.shape(), b, token), &turn, key_sink);
            append_token(values, b, i, slots.of(value_sink.shape(), b, token), nullptr, value_sink);
        }
    }
    return {};
}

// A pool of pages looks like a dense cache, and an empty cache like a full one: both are always said.
template <element S, class K, class V>
status append(tensor_view<S> const&, tensor_view<S> const&, K const& to_k, V const& to_v, append_options const& = {}) noexcept {
    (void)sink_of(to_k), (void)sink_of(to_v);
    static_assert(sizeof(S) == 0,
                  "imbrex: append needs to know where new tokens go: append(k, v, to_k, to_v, {.first = lengths}, slots), slots "
                  "being dense_slots{}, ring_slots{} or paged_slots{table}");
    return {};
}

IMBREX_ISA_END
