// The shapes that a plan is made for.
#pragma once

#include <algorithm>

#include "imbrex/kv_split.hpp"
#include "imbrex/status.hpp"

namespace imbrex {

// How the tokens of one kv head follow each other in memory.
enum class kv_layout {
    contiguous,    // back to back (BHSD)
    strided,       // far apart (BSHD with several heads, packed QKV): a plan may copy a kv head once per call
    paged,         // in several runs (paged_kv, ring_kv, two_part_kv): prefill gathers a tile at a time
};

// The shapes to plan for. Token counts and batch are the most that a call on this plan will have.
struct problem {
    index batch = 1;        // sequences, packed ones too
    index q_tokens = 0;     // of the longest sequence
    index kv_tokens = 0;    // likewise
    index q_heads = 1;
    index kv_heads = 1;
    index head_dim = 0;
    index head_dim_v = 0;    // 0: the same as head_dim
    kv_layout layout = kv_layout::contiguous;
    split_policy split = split_policy::by_length;
    index kv_held = 0;    // tokens of a sequence that are there at once, where they are fewer (ring_kv: its slots); 0: all

    constexpr index group() const noexcept { return q_heads / std::max<index>(1, kv_heads); }
    constexpr index held() const noexcept { return kv_held > 0 ? std::min(kv_held, kv_tokens) : kv_tokens; }
};

inline status check_problem(problem const& p) noexcept {
    using enum tensor_role;
    struct {
        index size;
        tensor_role role;
    } const sizes[] = {{p.batch, query}, {p.q_tokens, query}, {p.q_heads, query}, {p.kv_tokens, key}, {p.kv_heads, key}};
    for (auto const& s : sizes) {
        if (s.size < 0) return {errc::negative_size, s.role, s.size};
    }
    for (index const size : {p.batch, p.q_heads, p.kv_heads}) {
        if (size > max_length) return {errc::too_many, query, size, max_length};
    }
    if (p.q_tokens > max_length) return {errc::too_long, query, p.q_tokens, max_length};
    if (p.kv_tokens > max_length) return {errc::too_long, key, p.kv_tokens, max_length};
    if (p.head_dim < 1 || p.head_dim > max_head_dim) return {errc::head_dim_range, query, p.head_dim, max_head_dim};
    if (p.head_dim_v < 1 || p.head_dim_v > max_head_dim) return {errc::head_dim_range, value, p.head_dim_v, max_head_dim};
    if (p.q_heads != 0 && (p.kv_heads == 0 || p.q_heads % p.kv_heads != 0)) {
        return status{errc::heads_not_divisible, p.q_heads, p.kv_heads};
    }
    return {};
}

}    // namespace imbrex
