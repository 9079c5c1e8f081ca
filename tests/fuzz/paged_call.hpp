// A call on paged keys and values as bytes tell it, and whether it is well-formed: told anew, from the documentation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <imbrex/imbrex.hpp>

namespace imbrex_test {

using imbrex::index;
using imbrex::position;
using imbrex::shape4;
using numbers = std::vector<position>;

// The input, a number at a time; zeros when it is used up.
class number_stream {
public:
    number_stream(std::uint8_t const* data, std::size_t size) : at_{data}, end_{data + size} {}

    index byte() { return at_ == end_ ? 0 : *at_++; }
    index below(index n) { return byte() % n; }
    index from(index first, index last) { return first + below(last - first + 1); }
    // How far a size is off: mostly 0.
    index slip() {
        index const b = byte();
        return b < 0xf0 ? 0 : b - 0xf8;
    }
    // Below `limit`; in one of 32 cases just not, and in another one anything at all.
    position below_or_any(index limit) {
        index const b = byte();
        if (b < 0xf0) return static_cast<position>(b % std::max<index>(1, limit));
        if (b < 0xf8) return static_cast<position>(limit + b - 0xf0);
        std::uint32_t any = 0;
        for (int i = 0; i < 4; ++i) any = any << 8 | static_cast<std::uint32_t>(byte());
        return static_cast<position>(any);
    }

private:
    std::uint8_t const* at_;
    std::uint8_t const* end_;
};

// A call as the bytes tell it.
struct paged_call {
    bool packed, lists, heads_first;
    index sequences, left;
    shape4 q, k, v, out;
    index width;
    numbers ids, lists_starts, lengths, q_starts;

    explicit paged_call(number_stream& in) {
        index const kinds = in.byte();
        packed = kinds & 1, lists = kinds & 2, heads_first = kinds & 4;
        k = {in.below(9), in.below(10), in.below(4), in.from(1, 20)};
        v = {k.batch + in.slip(), k.tokens + in.slip(), k.heads + in.slip(), in.from(1, 20)};
        sequences = in.below(5);
        q = {sequences, in.below(21), k.heads * in.below(7) + in.slip(), k.head_dim + in.slip()};
        left = in.byte();
        if (packed) pack_queries(in);
        out = {q.batch, q.tokens + in.slip(), q.heads, v.head_dim};
        read_table(in);
        for (index s = sequences + in.slip(); s > 0; --s)
            lengths.push_back(in.below_or_any(pages_of(lengths.size()) * k.tokens + 1));
    }

    bool of_lists() const { return !lists_starts.empty(); }
    index pages_of(std::size_t s) const {
        if (!of_lists()) return std::clamp<index>(width, 0, 64);
        return s + 1 < lists_starts.size() ? std::clamp<index>(index{lists_starts[s + 1]} - lists_starts[s], 0, 64) : 0;
    }

private:
    void pack_queries(number_stream& in) {
        position total = in.below(2) == 0 ? 0 : 3;
        for (index s = sequences + 1 + in.slip(); s > 0; --s) {
            q_starts.push_back(total);
            position const next = in.below_or_any(21);
            total = next < 0 || next > 20 ? next : total + next;
            if (total < 0 || total > 200) total = 0, q_starts.back() = next;
        }
        q.batch = 1 + in.slip();
        q.tokens = q_starts.empty() ? 0 : std::clamp<index>(q_starts.back() + in.slip(), 0, 200);
    }

    void read_table(number_stream& in) {
        index const widest = 8;
        width = in.below_or_any(widest + 1);
        if (width < 0 || width > widest) width *= index{1} << in.below(33);
        index count = lists ? 0 : std::clamp<index>(width, 0, widest) * sequences;
        if (lists) {
            for (index s = sequences + 1 + in.slip(); s > 0; --s) {
                position const pages = in.below_or_any(widest + 1);
                lists_starts.push_back(pages < 0 || pages > widest ? pages : static_cast<position>(count));
                if (pages > 0 && pages <= widest) count += pages;
            }
            std::size_t const last = lists_starts.size();
            if (last > 0 && lists_starts[last - 1] >= 0) count = std::min<index>(count, lists_starts[last - 1]);
        }
        for (index i = count + in.slip(); i > 0; --i) ids.push_back(in.below_or_any(k.batch));
    }
};

// What the documentation asks of a call, of its shapes ...
inline bool shapes_fit(paged_call const& c) {
    auto const sizes = [](shape4 const& s) { return s.batch >= 0 && s.tokens >= 0 && s.heads >= 0 && s.head_dim >= 1; };
    if (!sizes(c.q) || !sizes(c.k) || !sizes(c.v) || !sizes(c.out)) return false;
    if (c.v.batch != c.k.batch || c.v.tokens != c.k.tokens || c.v.heads != c.k.heads || c.q.head_dim != c.k.head_dim)
        return false;
    if (c.out.tokens != c.q.tokens) return false;
    return c.q.heads == 0 || (c.k.heads > 0 && c.q.heads % c.k.heads == 0);
}

// ... of its packed queries ...
inline bool queries_fit(paged_call const& c) {
    if (!c.packed) return true;
    if (c.q.batch != 1 || c.q_starts.empty() || c.q_starts.front() < 0) return false;
    return std::is_sorted(c.q_starts.begin(), c.q_starts.end()) && c.q_starts.back() <= c.q.tokens;
}

inline index sequences_of(paged_call const& c) { return c.packed ? std::ssize(c.q_starts) - 1 : c.q.batch; }

inline index first_id(paged_call const& c, index s) {
    return c.of_lists() ? c.lists_starts[static_cast<std::size_t>(s)] : s * c.width;
}

// ... and of its pages.
inline bool pages_fit(paged_call const& c) {
    index const sequences = sequences_of(c);
    if (std::ssize(c.lengths) != sequences) return false;
    if (c.of_lists() && std::ssize(c.lists_starts) != sequences + 1) return false;
    if (c.of_lists() && sequences > 0 && c.lists_starts[0] < 0) return false;
    if (c.of_lists() && !std::is_sorted(c.lists_starts.begin(), c.lists_starts.end())) return false;
    if (!c.of_lists() && (c.width > imbrex::max_length || (c.width < 0 && sequences > 0))) return false;
    for (index s = 0; s < sequences; ++s) {
        index const length = c.lengths[static_cast<std::size_t>(s)];
        if (length < 0 || (length > 0 && c.k.tokens == 0)) return false;
        if (length == 0) continue;
        index const first = first_id(c, s), needed = (length - 1) / c.k.tokens + 1;
        index const given = c.of_lists() ? c.lists_starts[static_cast<std::size_t>(s) + 1] - first : c.width;
        if (needed > given || first + needed > std::ssize(c.ids)) return false;
        for (index i = first; i < first + needed; ++i) {
            if (position const id = c.ids[static_cast<std::size_t>(i)]; id < 0 || id >= c.k.batch) return false;
        }
    }
    return true;
}

// The queries of a sequence, its keys, and which of them a query sees.
struct sequence {
    index batch, first, queries, keys, left;

    sequence(paged_call const& c, index s) : batch{c.packed ? 0 : s}, first{0}, queries{c.q.tokens}, left{c.left} {
        auto const at = static_cast<std::size_t>(s);
        if (c.packed) first = c.q_starts[at], queries = c.q_starts[at + 1] - first;
        keys = c.lengths[at];
    }
    index first_seen(index i) const { return std::max<index>(0, keys - queries + i - left); }
    index end_seen(index i) const { return std::max<index>(0, keys - queries + i + 1); }
};

}    // namespace imbrex_test
