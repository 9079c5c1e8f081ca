// Which keys of a partly masked tile some row of it sees. The others' values are never touched: 0 x NaN would be NaN.
#pragma once

#include "imbrex/tile.hpp"

namespace imbrex {

class seen_keys {
public:
    void reset(index keys) noexcept {
        for (index j = 0; j < keys; ++j) seen_[j] = 0;
    }
    void add(index j, bool seen) noexcept { seen_[j] |= static_cast<unsigned char>(seen); }

    bool all(index begin, index end) const noexcept {
        for (index j = begin; j < end; ++j) {
            if (seen_[j] == 0) return false;
        }
        return true;
    }
    // Calls f(first, last) for each stretch of seen keys in [begin, end).
    template <class F>
    void for_each(index begin, index end, F&& f) const {
        for (index j = begin; j < end;) {
            while (j < end && seen_[j] == 0) ++j;
            index const first = j;
            while (j < end && seen_[j] != 0) ++j;
            if (first < j) f(first, j);
        }
    }

private:
    unsigned char seen_[max_kv_cols];
};

}    // namespace imbrex
