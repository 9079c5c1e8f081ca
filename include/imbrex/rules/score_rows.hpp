// What masks share that are given as a matrix over the scores: the coverage of a tile from that of its rows.
#pragma once

#include <algorithm>

#include "imbrex/mask.hpp"
#include "imbrex/view.hpp"

namespace imbrex {

// Whether any key and whether all keys so far are seen.
struct seen_so_far {
    bool any = false;
    bool all = true;

    constexpr bool mixed() const noexcept { return any && !all; }
    constexpr void add(seen_so_far const& more) noexcept {
        any = any || more.any;
        all = all && more.all;
    }
    constexpr void add(coverage c) noexcept { add({c != coverage::none, c == coverage::full}); }
    constexpr coverage result() const noexcept { return mixed() ? coverage::partial : any ? coverage::full : coverage::none; }
};

// scan(head, row) tells what is seen of the window in a matrix with that many heads and rows; rows are asked until they differ.
template <class F>
constexpr coverage classify_rows(head_context const& ctx, index heads, index first_row, index last_row, F const& scan) noexcept {
    seen_so_far seen;
    index const first_head = heads == 1 ? 0 : ctx.head_first, head_count = heads == 1 ? 1 : ctx.head_count;
    for (index h = first_head; h < first_head + head_count; ++h) {
        for (index row = first_row; row <= last_row; ++row) {
            seen.add(scan(h, row));
            if (seen.mixed()) return coverage::partial;
        }
    }
    return seen.result();
}

}    // namespace imbrex
