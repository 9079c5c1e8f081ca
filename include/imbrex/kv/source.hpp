// What a kv source is: where the keys and values of a call lie, told a kv head of one sequence at a time.
#pragma once

#include "imbrex/encoding.hpp"
#include "imbrex/rows.hpp"
#include "imbrex/sequences.hpp"

namespace imbrex {

// A view's data as the library's storage type of the same bits (e.g. _Float16 as f16).
template <class T>
auto storage_view(tensor_view<T> v) noexcept {
    using S = kv_storage_of<T>;
    using C = std::conditional_t<std::is_const_v<T>, S const, S>;
    return tensor_view<C>{reinterpret_cast<C*>(v.data), v.shape, v.strides};
}

// One kv head of one sequence, as the loop reads it: keys from position `held_from` on; earlier ones are no longer there.
template <row_set KeyRows, row_set ValueRows>
struct kv_head {
    KeyRows keys{};
    ValueRows values{};
    position held_from = 0;

    constexpr kv_tile<KeyRows, ValueRows> tile(index kv_begin, index) const noexcept {
        return {keys.from(kv_begin), values.from(kv_begin)};
    }
};

template <class S>
concept kv_source = requires(S const& s, index i) {
    typename S::key_rows;
    typename S::value_rows;
    { s.sequences() } -> std::same_as<sequence_side>;
    { s.heads() } -> std::same_as<index>;
    { s.head_dim() } -> std::same_as<index>;
    { s.head_dim_v() } -> std::same_as<index>;
    { s.lies_apart() } -> std::same_as<bool>;
    { s.head(i, i) } -> std::same_as<kv_head<typename S::key_rows, typename S::value_rows>>;
};

// Whether each kv head of a sequence is rows a stride apart; other sources are gathered where a unit needs that.
template <kv_source S>
inline constexpr bool in_one_run = one_run<typename S::key_rows>&& one_run<typename S::value_rows>;

// Rows of one head of a tensor, from a token on.
template <class E>
constexpr rows<E> rows_of(tensor_view<E const> const& t, index batch, index first, index head) noexcept {
    index const h = t.shape.heads == 1 ? 0 : head;    // strides of axes of size 1 are ignored
    return {t.row(batch_entry(t.shape, batch), first, h), t.shape.tokens == 1 ? 0 : t.strides.token};
}

// Whether the tokens of a head lie so far apart that a copy of it may pay.
constexpr bool tokens_lie_apart(shape4 const& shape, strides4 const& strides, index element_bytes) noexcept {
    constexpr index near_bytes = 1024;    // rows closer than this share pages, and their sets do not collide
    return shape.tokens > 1 && strides.token > shape.head_dim && strides.token * element_bytes >= near_bytes;
}
template <class E>
constexpr bool tokens_lie_apart(tensor_view<E> const& t) noexcept {
    return tokens_lie_apart(t.shape, t.strides, static_cast<index>(sizeof(E)));
}

}    // namespace imbrex
