// Which vectors of queries see which keys of a tile: what a diagonal, or any mask, leaves of it.
#pragma once

#include <algorithm>

#include "imbrex/units/wide_layout.hpp"

IMBREX_ISA_BEGIN

// Keys [begin, end) of the tile against query vectors [first, first + vectors): none of the skipped ones sees them.
struct wide_run {
    index begin, end;
    int first, vectors;
    coverage seen;
};

template <class T>
class wide_runs {
public:
    wide_run const* begin() const noexcept { return runs_; }
    wide_run const* end() const noexcept { return runs_ + count_; }
    wide_run const& front() const noexcept { return runs_[0]; }
    bool empty() const noexcept { return count_ == 0; }

    // A tile that the rule lets all see in full is one run. Else segments of keys are classified against each vector of
    // queries, so that the work on a diagonal is bounded by the segment, not by the tile.
    template <class Rule>
    void find(Rule const& rule, head_context const& ctx, tile_window const& w, coverage seen, lane_int<T> const* positions,
              index rows) noexcept {
        count_ = 0;
        int const vectors = static_cast<int>((rows + W - 1) / W);
        index const keys = w.kv_end - w.kv_begin;
        if (seen == coverage::full) {
            runs_[count_++] = {0, keys, 0, vectors, coverage::full};
            return;
        }
        for (index j = 0; j < keys; j += wide_geometry<T>::segment) {
            wide_run next{j, std::min(keys, j + wide_geometry<T>::segment), vectors, 0, coverage::full};
            int last = 0;
            for (int v = 0; v < vectors; ++v) {
                index const last_row = std::min<index>(rows, (v + 1) * W) - 1;
                coverage const c =
                    classify_of(rule, ctx,
                                {static_cast<position>(positions[v * W]), static_cast<position>(positions[last_row]),
                                 static_cast<position>(w.kv_begin + j), static_cast<position>(w.kv_begin + next.end)});
                if (c == coverage::none) continue;
                if (last != 0 && last < v) next.seen = coverage::partial;    // a hole between two that see it
                next.first = std::min(next.first, v);
                last = v + 1;
                if (c == coverage::partial) next.seen = coverage::partial;
            }
            next.vectors = last - next.first;
            if (last != 0) append(next);
        }
    }

private:
    static constexpr int W = lane_count<T>;

    void append(wide_run const& next) noexcept {
        if (count_ > 0) {
            wide_run& back = runs_[count_ - 1];
            if (back.end == next.begin && back.first == next.first && back.vectors == next.vectors && back.seen == next.seen) {
                back.end = next.end;
                return;
            }
        }
        runs_[count_++] = next;
    }

    wide_run runs_[wide_geometry<T>::max_runs];
    int count_ = 0;
};

IMBREX_ISA_END
