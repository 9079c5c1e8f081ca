// What is refused of scales that lie beside keys and values.
#pragma once

#include <limits>

#include "imbrex/tensor_facts.hpp"

namespace imbrex {

// The scales of one tensor of keys or values.
enum class scales_needed { no, yes };
struct scale_facts {
    tensor_facts t{};
    scales_needed needed = scales_needed::no;
};

struct kv_scale_facts {
    scale_facts k{}, v{}, prefix_k{}, prefix_v{};
};

namespace detail {

// As a number that an error may tell, however absurd the shape.
inline index count_of(index batch, index tokens, index heads, index head_dim) noexcept {
    index n = batch;
    for (index const size : {tokens, heads, head_dim}) {
        if (__builtin_mul_overflow(n, size, &n)) return std::numeric_limits<index>::max();
    }
    return n;
}

// Scales have the axes of their rows, or such of size 1, and a whole number of groups.
IMBREX_NOINLINE inline status check_scales_of(tensor_facts const& rows, scale_facts const& scales, tensor_role role) noexcept {
    tensor_facts const& s = scales.t;
    if (scales.needed == scales_needed::no) {
        if (s.address == 0) return {};
        return {errc::scales_shape, role, count_of(s.shape.batch, s.shape.tokens, s.shape.heads, s.shape.head_dim), 0};
    }
    for (index const size : {s.shape.batch, s.shape.tokens, s.shape.heads, s.shape.head_dim}) {
        if (size < 0) return {errc::negative_size, role, size};
    }
    index const own[] = {s.shape.batch, s.shape.tokens, s.shape.heads};
    index const needed[] = {rows.shape.batch, rows.shape.tokens, rows.shape.heads};
    for (int i = 0; i < 3; ++i) {
        if (own[i] != needed[i] && own[i] != 1) {
            index const groups = std::max<index>(1, s.shape.head_dim);
            return {errc::scales_shape, role, count_of(own[0], own[1], own[2], s.shape.head_dim),
                    count_of(needed[0], needed[1], needed[2], groups)};
        }
    }
    if (rows.values_each > 1 && rows.row_numbers() % int4_at_once != 0)
        return {errc::pairs_not_whole, role, rows.row_numbers(), int4_at_once};
    index const numbers = rows.row_numbers(), groups = s.shape.head_dim;
    if (groups < 1 || groups > numbers) return {errc::scales_shape, role, groups, numbers};
    if (numbers % groups != 0) return {errc::group_not_whole, role, numbers, (numbers + groups - 1) / groups};
    if (rows.shape.batch == 0 || rows.shape.tokens == 0 || rows.shape.heads == 0) return {};
    return check_memory(s, role);
}

// Those of a prefix: in groups like the suffix's. A prefix without tokens needs none.
inline status check_prefix_scales(tensor_facts const& rows, scale_facts const& scales, scale_facts const& of_suffix,
                                  tensor_role role) noexcept {
    if (scales.needed == scales_needed::yes && rows.shape.tokens == 0) return {};
    if (status const s = check_scales_of(rows, scales, role); !s) return s;
    index const own = scales.t.shape.head_dim, needed = of_suffix.t.shape.head_dim;
    if (scales.needed == scales_needed::yes && own != needed) return {errc::scales_shape, role, own, needed};
    return {};
}

}    // namespace detail

}    // namespace imbrex
