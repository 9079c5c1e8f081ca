// The order of one call's work: sequences of any lengths, their kv heads, and the row tiles of each, numbered from 0.
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <numeric>

#include "imbrex/plan.hpp"
#include "imbrex/sequences.hpp"

namespace imbrex {

// One kv head of one sequence: the `place`-th of the call.
struct placed_head {
    index place = 0;
    index sequence = 0;
    index kv_head = 0;
};

// A tile of query rows on it, and the keys: one of so many parts.
struct work_item {
    placed_head head;
    index row_tile = 0;
    index part = 0;
    index parts = 1;
    index heads = 1;    // kv heads from that one on, read side by side
};

// Decision: sequences from the largest to the smallest (queries x keys), the kv heads of a sequence one after another, each with
// its longest row tiles first. The last items are then short ones, which balances as well as sorting all items would, K and V of
// a head stay in cache, and an item is found from its number by a binary search over the sequences. Where kv heads are packed,
// their sequences come first, so that all others share one last wave. Equal sequences are in order as they stand.
class work_order {
public:
    // Which sequences have their kv heads packed: as the plan says, or none.
    enum class copying { as_planned, none };
    // How the rows of a kv head lie: those that lie apart are read together with those of other heads, where the plan says so.
    enum class kv_rows { together, apart };

    // How many keys of a sequence some query may see: a reference to a function of its number, valid during construction only.
    class keys_of_sequence {
    public:
        template <class F>
            requires(!std::same_as<F, keys_of_sequence>)
        keys_of_sequence(F const& f)
        noexcept
            : object_{std::addressof(f)},
              call_{[](void const* object, index s) { return index{(*static_cast<F const*>(object))(s)}; }} {}
        index operator()(index sequence) const noexcept { return call_(object_, sequence); }

    private:
        void const* object_;
        index (*call_)(void const*, index);
    };

    // Writes to memory.order and memory.first_item, which hold the plan's batch. The keys that some query may see are split.
    work_order(plan const& p, sequence_side const& q, sequence_side const& kv, copying c, workspace_layout const& memory,
               kv_rows lie, keys_of_sequence const& keys_seen) noexcept
        : order_{memory.order},
          first_item_{memory.first_item},
          first_state_{memory.first_state},
          plan_{p},
          q_{q},
          sequences_{q.sequences()},
          kv_heads_{p.shape.kv_heads} {
        larger_first const goes_first{p, q, kv, c};
        auto const copies = [&](index s) { return goes_first.copies(s); };
        std::iota(order_, order_ + sequences_, 0);
        bool const equal = q.of_one_length() && kv.of_one_length();
        if (!equal && !std::is_sorted(order_, order_ + sequences_, goes_first))
            std::sort(order_, order_ + sequences_, goes_first);
        auto const keys = [&](index s) { return p.split.may_split(kv.of(s).count) ? keys_seen(s) : kv.of(s).count; };
        if (p.shape.split == split_policy::by_workers) share_ = share_of(p, q, keys, memory.workers);
        if (lie == kv_rows::apart) heads_together_ = together_of(p, q, keys, share_, memory.workers);
        first_item_[0] = first_state_[0] = 0;
        index queries = 0, tiles = 0;    // of the sequence before
        for (index i = 0; i < sequences_; ++i) {
            if (index const n = q.of(order_[i]).count; n != queries) queries = n, tiles = p.row_tiles(n);
            index const parts = tiles == 1 && p.split.least_keys > 0 ? p.kv_parts(queries, keys(order_[i]), share_) : 1;
            first_item_[i + 1] = first_item_[i] + groups_of(i) * tiles * parts;
            first_state_[i + 1] = first_state_[i] + (parts > 1 ? kv_heads_ * parts : 0);
        }
        while (copied_heads_ < heads() && copies(order_[copied_heads_ / kv_heads_])) copied_heads_ += kv_heads_;
    }
    // Of sequences all of whose keys are seen.
    work_order(plan const& p, sequence_side const& q, sequence_side const& kv, copying c, workspace_layout const& memory,
               kv_rows lie = kv_rows::together) noexcept
        : work_order{p, q, kv, c, memory, lie, [&](index s) { return kv.of(s).count; }} {}

    index heads() const noexcept { return sequences_ * kv_heads_; }
    index copied_heads() const noexcept { return copied_heads_; }    // the first so many are packed

    placed_head head(index place) const noexcept { return {place, order_[place / kv_heads_], place % kv_heads_}; }

    // The number of the first item of a head, or of the end. Of heads that are read together, those of the first.
    index first_item(index place) const noexcept {
        if (place == heads()) return first_item_[sequences_];
        index const i = place / kv_heads_;
        return first_item_[i] + place % kv_heads_ / together(i) * items_of(i);
    }

    // Keys that a part should have where workers decide, else 0.
    index share() const noexcept { return share_; }

    // The number of the first of a head's parts among all parts of split heads, or of the end.
    index first_state(index place) const noexcept {
        if (place == heads()) return first_state_[sequences_];
        index const i = place / kv_heads_;
        return first_state_[i] + (split(i) ? place % kv_heads_ * items_of(i) : 0);
    }
    // Up to which head, from `first` on, so many states hold the parts of all; at most `end`. Both are first of those together.
    index end_of_wave(index first, index end, index states) const noexcept {
        index const most = first_state(first) + states;
        if (first_state(end) <= most) return end;
        index last = after(first);    // the states hold those of any heads together
        while (first_state(after(last)) <= most) last = after(last);
        return last;
    }

    work_item item(index number) const noexcept {
        index const i = std::upper_bound(first_item_ + 1, first_item_ + sequences_, number) - (first_item_ + 1);
        index const items = items_of(i), within = number - first_item_[i], group = within / items, at = within - group * items;
        index const kv_head = group * together(i), heads = std::min(together(i), kv_heads_ - kv_head);
        placed_head const head{i * kv_heads_ + kv_head, order_[i], kv_head};
        if (split(i)) return {head, 0, at, items, heads};
        return {head, items - 1 - at, 0, 1, heads};
    }

private:
    struct larger_first {
        plan const& p;
        sequence_side const &q, &kv;
        copying c;

        bool copies(index s) const noexcept { return c == copying::as_planned && p.copies(q.of(s).count, kv.held(s)); }
        IMBREX_NOINLINE bool operator()(position a, position b) const noexcept {
            if (copies(a) != copies(b)) return copies(a);
            index const of_a = q.of(a).count * kv.of(a).count, of_b = q.of(b).count * kv.of(b).count;
            return of_a == of_b ? a < b : of_a > of_b;
        }
    };

    template <class Keys>
    static index share_of(plan const& p, sequence_side const& q, Keys const& keys_of, index workers) noexcept {
        index keys = 0;
        for (index s = 0; s < q.sequences(); ++s) {
            if (index const n = q.of(s).count; n > 0 && p.unit(n) == unit_kind::narrow) keys += keys_of(s) * p.shape.kv_heads;
        }
        return keys / (tune::shares_per_worker * workers) + 1;
    }

    // Decision: kv heads that an item reads together are as many as leave each worker some items. They do not change bits, so
    // they may depend on workers and batch, where the parts of a head may not.
    template <class Keys>
    static index together_of(plan const& p, sequence_side const& q, Keys const& keys_of, index share, index workers) noexcept {
        index most = std::max<index>(1, p.heads_together), items = 0;
        if (most > 1 && workers > 1) {
            for (index s = 0; s < q.sequences(); ++s) {
                index const n = q.of(s).count;
                if (n > 0 && p.unit(n) == unit_kind::narrow) items += p.shape.kv_heads * p.kv_parts(n, keys_of(s), share);
            }
            most = std::clamp<index>(items / (tune::items_per_worker * workers), 1, most);
        }
        index const groups = (p.shape.kv_heads + most - 1) / most;    // of nearly equal size
        return groups > 0 ? (p.shape.kv_heads + groups - 1) / groups : 1;
    }

    // kv heads of the sequence at place i that an item reads, and how many such items it takes to read all.
    index together(index i) const noexcept {
        return heads_together_ > 1 && plan_.unit(q_.of(order_[i]).count) == unit_kind::narrow ? heads_together_ : 1;
    }
    index groups_of(index i) const noexcept { return (kv_heads_ + together(i) - 1) / together(i); }
    index after(index place) const noexcept {
        index const kv_head = place % kv_heads_;
        return place + std::min(together(place / kv_heads_), kv_heads_ - kv_head);
    }
    // Of each kv head of the sequence at place i: its row tiles, or its parts.
    index items_of(index i) const noexcept { return (first_item_[i + 1] - first_item_[i]) / groups_of(i); }
    bool split(index i) const noexcept { return first_state_[i + 1] > first_state_[i]; }

    position* order_;       // sequences_
    index* first_item_;     // sequences_ + 1
    index* first_state_;    // sequences_ + 1
    plan const& plan_;
    sequence_side q_;
    index sequences_;
    index kv_heads_;
    index heads_together_ = 1;
    index copied_heads_ = 0;
    index share_ = 0;
};

}    // namespace imbrex
