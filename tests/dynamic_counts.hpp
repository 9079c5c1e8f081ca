// How many scores of any window a mask lets through: what the dynamic rule classifies by, as well or as badly as it is told to.
#pragma once

#include <algorithm>
#include <vector>

#include "imbrex/mask.hpp"

namespace imbrex_test {

using imbrex::index;

// How well a rule knows itself. Unsound is a fault that tests must find.
enum class advice { exact, sometimes, never, unsound };

// Sums over rectangles of a table of bits, for each sequence and head.
class counts {
public:
    counts() = default;

    // is_set(batch, head, query, key)
    template <class F>
    counts(index batch, index heads, index q_len, index kv_len, F const& is_set)
        : heads_{heads}, q_len_{q_len}, kv_len_{kv_len}, sums_(static_cast<std::size_t>(batch * heads * (q_len + 1) * (kv_len + 1))) {
        for (index b = 0; b < batch; ++b) {
            for (index h = 0; h < heads; ++h) {
                for (index i = 0; i < q_len; ++i) {
                    index row = 0;
                    for (index j = 0; j < kv_len; ++j) {
                        row += is_set(b, h, i, j) ? 1 : 0;
                        sum(b, h, i + 1, j + 1) = sum(b, h, i, j + 1) + row;
                    }
                }
            }
        }
    }

    // Over queries [i, i_end) and keys [j, j_end).
    index count(index b, index h, index i, index i_end, index j, index j_end) const {
        return sum(b, h, i_end, j_end) - sum(b, h, i, j_end) - sum(b, h, i_end, j) + sum(b, h, i, j);
    }

    imbrex::coverage classify(imbrex::head_context const& ctx, imbrex::tile_window const& w, advice given) const {
        index const first = w.q_first - ctx.query_offset(), end = w.q_last - ctx.query_offset() + 1;
        index const all = (end - first) * (w.kv_end - w.kv_begin) * ctx.head_count;
        index const kept = of_heads(ctx, first, end, w.kv_begin, w.kv_end);
        index const draw = (first * 7 + w.kv_begin / 16 * 5 + w.kv_end + end) % 4;
        if (given == advice::never || (given == advice::sometimes && draw == 0)) return imbrex::coverage::partial;
        if (given == advice::unsound && kept > 0) return imbrex::coverage::full;
        return kept == 0 ? imbrex::coverage::none : kept == all ? imbrex::coverage::full : imbrex::coverage::partial;
    }

    imbrex::kv_range kv_bounds(imbrex::head_context const& ctx, imbrex::position q_first, imbrex::position q_last, advice given) const {
        if (given == advice::never) return {-3, ctx.kv_len + 9};
        index const first = q_first - ctx.query_offset(), end = q_last - ctx.query_offset() + 1;
        index low = 0, high = kv_len_;
        while (low < high && of_heads(ctx, first, end, low, low + 1) == 0) ++low;
        while (high > low && of_heads(ctx, first, end, high - 1, high) == 0) --high;
        if (low == high) return {4, 2};    // any range without a key will do
        if (given == advice::sometimes) low -= first % 5, high += end % 7;
        return {static_cast<imbrex::position>(low), static_cast<imbrex::position>(high)};
    }

private:
    index& sum(index b, index h, index i, index j) { return sums_[at(b, h, i, j)]; }
    index sum(index b, index h, index i, index j) const { return sums_[at(b, h, i, j)]; }
    std::size_t at(index b, index h, index i, index j) const {
        return static_cast<std::size_t>(((b * heads_ + h) * (q_len_ + 1) + i) * (kv_len_ + 1) + j);
    }
    index of_heads(imbrex::head_context const& ctx, index i, index i_end, index j, index j_end) const {
        index n = 0;
        for (index h = ctx.head_first; h < ctx.head_first + ctx.head_count; ++h) n += count(ctx.batch, h, i, i_end, j, j_end);
        return n;
    }

    index heads_ = 0, q_len_ = 0, kv_len_ = 0;
    std::vector<index> sums_;
};

}    // namespace imbrex_test
