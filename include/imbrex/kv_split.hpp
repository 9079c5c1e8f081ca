// Split-KV: the keys of a kv head that only a few query rows read (decode) are work for several threads, a part for each. The
// parts' states (m, l, o) are merged in the order of the parts, as the tiles of one thread would be. Flash-Decoding (Dao et al.
// 2023).
#pragma once

#include <algorithm>

#include "imbrex/tune.hpp"

namespace imbrex {

// What decides into how many parts keys are split.
enum class split_policy {
    by_length,     // the sequence's own length: the same bits on any number of threads, in any batch
    by_workers,    // the executor's workers and the whole batch, so that all have work on short caches too: the bits change with
                   // both, within rounding
};

// Decision: by default, where to split follows from the sequence's own length, the size of its rows and constants, never from the
// number of threads or the other sequences: so the bits of a sequence are the same on any number of threads and in any batch.
struct kv_split {
    index least_keys = 0;    // of a part; a multiple of kv_cols, so that tiles are those of one part; 0: nothing is split
    index kv_cols = 1;       // of the narrow unit's tiles
    index rows = 0;          // query rows that a state has room for
    index state_bytes = 0;

    static constexpr index whole_tiles(index keys, index kv_cols) noexcept { return (keys + kv_cols - 1) / kv_cols * kv_cols; }

    // Of keys and values of so many bytes a token.
    static constexpr index least_keys_of(index token_bytes, index kv_cols) noexcept {
        return whole_tiles((tune::part_bytes + token_bytes - 1) / token_bytes, kv_cols);
    }

    // Keys of each part but the last, which may have fewer. share: keys that a part should have where workers decide, else 0.
    constexpr index keys_of_part(index kv_tokens, index share = 0) const noexcept {
        index const keys = std::max(least_keys, whole_tiles((kv_tokens + tune::most_parts - 1) / tune::most_parts, kv_cols));
        if (share <= keys) return keys;
        index const parts = (kv_tokens + share - 1) / share;    // of equal length
        return std::max(keys, whole_tiles((kv_tokens + parts - 1) / std::max<index>(1, parts), kv_cols));
    }
    constexpr bool may_split(index kv_tokens) const noexcept { return least_keys > 0 && kv_tokens > least_keys; }
    constexpr index parts(index kv_tokens, index share = 0) const noexcept {
        if (!may_split(kv_tokens)) return 1;
        index const keys = keys_of_part(kv_tokens, share);
        return (kv_tokens + keys - 1) / keys;
    }

    // States that a call has room for: those of all its heads, but no more than a wave of work needs. At least those of the heads
    // that are read together.
    constexpr index states(index heads, index kv_tokens, index workers, index together = 1) const noexcept {
        if (least_keys == 0) return 0;
        index const of_a_head = std::min(tune::most_parts, (kv_tokens + least_keys - 1) / least_keys);
        index const of_a_wave = std::max(together * of_a_head, tune::parts_per_worker * workers);
        return heads > of_a_wave ? of_a_wave : std::min(heads * of_a_head, of_a_wave);
    }
};

}    // namespace imbrex
