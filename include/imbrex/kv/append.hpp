// Writes new tokens' keys and values into a cache, encoded, with the keys turned by their positions on the way.
// Each new row is read once and written once. A cache is anything that is a row_sink (row_sink.hpp has those in dense tensors).
#pragma once

#include <span>

#include "imbrex/kv/rope.hpp"
#include "imbrex/kv/row_sink.hpp"

namespace imbrex {

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
    return {};
}

// Whether each new token has a slot of its own, in keys and in values; where slots can tell.
template <class Slots>
status check_slots_apart(shape4 const& fresh, shape4 const& keys, shape4 const& values, append_options const& o,
                         Slots const& slots) noexcept {
    auto const first = [&](index s) { return o.first_of(s); };
    if constexpr (requires { slots.check_apart(keys, fresh.batch, fresh.tokens, first); }) {
        if (status const s = slots.check_apart(keys, fresh.batch, fresh.tokens, first); !s) return s;
        if (values.tokens != keys.tokens) return slots.check_apart(values, fresh.batch, fresh.tokens, first);
    }
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
    if (status const s = check_slots_apart(keys.shape, key_sink.shape(), value_sink.shape(), o, slots); !s) return s;
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
