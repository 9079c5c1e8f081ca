// What a call did with its tiles, for callers who ask. Nothing is counted for those who do not.
#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <type_traits>

#include "imbrex/config.hpp"

namespace imbrex {

// The key tiles of one tile of query rows on one kv head; rows at its end that the narrow unit takes are a tile of their own. All
// of them together: ceil(keys / kv_cols of the unit); of a part where workers decide (split_policy), of the part.
struct tile_counts {
    index skipped = 0;    // outside the rule's kv_bounds, or classified `none`: never touched
    index full = 0;       // computed, without asking the mask for each score
    index partial = 0;    // computed, with the mask
    friend constexpr bool operator==(tile_counts const&, tile_counts const&) = default;
};

// item(counts) is called once per tile of query rows, or once for each part that its keys are split into (split-KV), from the
// worker that did it: by several threads at once. It must not throw.
template <class O>
concept tile_observer = requires(O& o, tile_counts const& counts) {
    o.item(counts);
};

// The default.
struct no_observer {
    static constexpr void item(tile_counts const&) noexcept {}
};

template <class O>
inline constexpr bool observes = !std::same_as<std::remove_cvref_t<O>, no_observer>;

// A reference to any observer, or to none.
class observer_ref {
public:
    template <class O>
        requires(!std::same_as<O, observer_ref> && tile_observer<O>)
    observer_ref(O& o)
    noexcept {
        if constexpr (!observes<O>) return;
        object_ = const_cast<void*>(static_cast<void const*>(std::addressof(o)));
        item_ = [](void* object, tile_counts const& counts) { static_cast<O*>(object)->item(counts); };
    }

    void item(tile_counts const& counts) const {
        if (item_ != nullptr) item_(object_, counts);
    }

private:
    void* object_ = nullptr;
    void (*item_)(void*, tile_counts const&) = nullptr;
};

// Adds up the tiles of any number of calls, and of threads.
//
//     tile_counters counters;
//     attention(q, kv, out, causal{align::top_left}, {.workspace = allocate{}}, counters);
//     counters.total().skipped;
class tile_counters {
public:
    void item(tile_counts const& counts) noexcept {
        skipped_.fetch_add(counts.skipped, std::memory_order_relaxed);
        full_.fetch_add(counts.full, std::memory_order_relaxed);
        partial_.fetch_add(counts.partial, std::memory_order_relaxed);
    }
    // Of the calls that have returned.
    tile_counts total() const noexcept {
        return {skipped_.load(std::memory_order_relaxed), full_.load(std::memory_order_relaxed),
                partial_.load(std::memory_order_relaxed)};
    }
    void reset() noexcept {
        skipped_.store(0, std::memory_order_relaxed);
        full_.store(0, std::memory_order_relaxed);
        partial_.store(0, std::memory_order_relaxed);
    }

private:
    std::atomic<index> skipped_{0}, full_{0}, partial_{0};
};

}    // namespace imbrex
