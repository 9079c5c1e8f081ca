// A rule whose composition is chosen at run time, for tests that try many. Its formulas are its own: they share nothing with
// imbrex/rules/. Its tables (lengths, segments, trees, tensors) are functions of a salt, so that a rule is a small value.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "dynamic_counts.hpp"
#include "imbrex/rule.hpp"
#include "imbrex/simd/elementwise.hpp"

namespace imbrex_test {

// A number that looks random and is the same for the same arguments.
template <class... N>
constexpr index noise(index salt, N... n) {
    auto x = static_cast<std::uint64_t>(salt) + 0x9e3779b97f4a7c15u;
    auto const stir = [&x](std::uint64_t next) {
        x = (x ^ next) * 0xbf58476d1ce4e5b9u;
        x ^= x >> 29;
    };
    (stir(static_cast<std::uint64_t>(n) + 1), ...);
    x *= 0x94d049bb133111ebu;
    return static_cast<index>(x >> 33);
}

// One score: whose it is, and of how many.
struct place {
    index batch = 0, head = 0, query = 0, key = 0;
    index q_len = 0, kv_len = 0;

    constexpr index position() const { return kv_len - q_len + query; }
};

enum class term { all, top_left, bottom_right, window, prefix, chunk, length, padding, segment, tensor, tree, blocks, both, either, negated };
enum class change { head_scale, temperature, softcap, alibi, relative, bias };

// What a, b and the salt mean is said at the formulas.
template <class Kind>
struct dynamic_part {
    Kind kind{};
    index a = 0, b = 0, salt = 0;
    friend constexpr bool operator==(dynamic_part const&, dynamic_part const&) = default;
};

// An axis of a tensor that serves all at once, as bits of `a`.
inline constexpr index shared_batch = 1, shared_head = 2, shared_query = 4, shared_key = 8;

// Numbers of tables.
constexpr index length_of(index salt, index batch, index kv_len) { return noise(salt, batch) % (kv_len + 1); }
constexpr index segment_of(dynamic_part<term> const& t, index batch, index position) {    // b: 0 interleaved, 1 in order
    return t.b == 0 ? noise(t.salt, batch, position / t.a) % 3 : (position + noise(t.salt, batch) % t.a) / t.a;
}
constexpr index parent_of(index salt, index node) { return noise(salt, node) % (node + 1) - 1; }    // -1: none
constexpr bool block_of(index salt, index q_block, index kv_block) { return noise(salt, q_block, kv_block) % 3 == 0; }
constexpr index element_of(index salt, index shared, place const& p) {
    return noise(salt, shared & shared_batch ? 0 : p.batch, shared & shared_head ? 0 : p.head, shared & shared_query ? 0 : p.query,
                 shared & shared_key ? 0 : p.key);
}
constexpr float head_factor(index salt, index head) { return 0.5f + static_cast<float>(noise(salt, head) % 64) / 64; }
constexpr float temperature_of(index salt, index position, index step) {
    return 0.5f + static_cast<float>(noise(salt, std::max<index>(position + 1, 0) / step) % 64) / 64;
}
constexpr float slope_of(index salt, index head) { return static_cast<float>(noise(salt, head) % 64) / 512; }
constexpr float relative_of(index salt, index head, index bucket) { return static_cast<float>(noise(salt, head, bucket) % 64 - 32) / 16; }
constexpr float sink_of(index salt, index head) {
    index const n = noise(salt, head) % 64;
    return n < 4 ? -std::numeric_limits<float>::infinity() : static_cast<float>(n - 32) / 8;
}
// b: how many of a hundred are -inf.
constexpr float bias_of(dynamic_part<change> const& c, place const& p) {
    index const n = element_of(c.salt, c.a, p);
    return n % 100 < c.b ? -std::numeric_limits<float>::infinity() : static_cast<float>(n / 128 % 64 - 32) / 16;
}

constexpr bool in_tree(dynamic_part<term> const& t, place const& p) {
    index const root = p.kv_len - std::min(t.a, p.kv_len);
    if (p.key < root || p.position() < root) return p.key < root;
    index node = p.position() - root;
    while (node > p.key - root) node = parent_of(t.salt, node);
    return node == p.key - root;
}

constexpr bool shows(dynamic_part<term> const& t, place const& p) {
    index const back = p.position() - p.key;    // how far the key is before the query
    switch (t.kind) {
        case term::top_left: return p.key <= p.query;
        case term::bottom_right: return p.kv_len - p.key >= p.q_len - p.query;
        case term::window: return (t.a < 0 || back <= t.a) && (t.b < 0 || -back <= t.b);    // a keys before, b after; -1: any
        case term::prefix: return p.key < t.a;
        case term::chunk: return p.position() >= 0 && p.position() / t.a == p.key / t.a;
        case term::length: return p.key < length_of(t.salt, p.batch, p.kv_len);
        case term::padding: return p.key >= length_of(t.salt, p.batch, p.kv_len);
        case term::segment: return p.position() >= 0 && segment_of(t, p.batch, p.position()) == segment_of(t, p.batch, p.key);
        case term::tensor: return element_of(t.salt, t.a, p) % 100 < t.b;
        case term::tree: return in_tree(t, p);
        case term::blocks: return block_of(t.salt, p.query / t.a, p.key / t.b);
        default: return true;
    }
}

// Order of effects: scale, cap, bias.
constexpr imbrex::score_stage stage_of(change c) {
    using enum imbrex::score_stage;
    return c < change::softcap ? scale : c == change::softcap ? cap : bias;
}

template <class T>
T changed_score(dynamic_part<change> const& c, place const& p, T s) {
    index const back = p.position() - p.key;
    switch (c.kind) {
        case change::head_scale: return s * static_cast<T>(head_factor(c.salt, p.head));
        case change::temperature: return s * static_cast<T>(temperature_of(c.salt, p.position(), c.a));
        case change::softcap: return static_cast<T>(c.a) * std::tanh(s / static_cast<T>(c.a));
        case change::alibi: return s - static_cast<T>(slope_of(c.salt, p.head)) * static_cast<T>(std::abs(back));
        case change::relative: return s + static_cast<T>(relative_of(c.salt, p.head, std::clamp(back, -c.a, c.a) + c.a));
        case change::bias: {
            float const bias = bias_of(c, p);
            return std::isinf(bias) ? static_cast<T>(bias) : s + static_cast<T>(bias);
        }
    }
    return s;
}

// Masks in reverse Polish order; changes of scores; a sink for each salt but 0.
struct composition {
    static constexpr int most_terms = 31, most_changes = 4, most_sinks = 2;
    dynamic_part<term> terms[most_terms] = {};
    dynamic_part<change> changes[most_changes] = {};
    index sinks[most_sinks] = {};
    int term_count = 0;
    int change_count = 0;
    friend constexpr bool operator==(composition const&, composition const&) = default;

    constexpr bool keeps(place const& p) const {
        std::uint32_t stack = 1;    // a bit each
        for (int i = 0; i < term_count; ++i) {
            dynamic_part<term> const& t = terms[i];
            std::uint32_t const top = stack & 1, rest = stack >> 1;
            if (t.kind == term::negated) {
                stack ^= 1;
            } else if (t.kind == term::both) {
                stack = rest & (~1u | top);
            } else if (t.kind == term::either) {
                stack = rest | top;
            } else {
                stack = stack << 1 | static_cast<std::uint32_t>(shows(t, p));
            }
        }
        return (stack & 1) != 0;
    }
    template <class T>
    T changed(imbrex::score_stage stage, place const& p, T s) const {
        for (int i = 0; i < change_count; ++i) {
            if (stage_of(changes[i].kind) == stage) s = changed_score(changes[i], p, s);
        }
        return s;
    }
    bool hides(place const& p) const {    // by a bias of -inf
        for (int i = 0; i < change_count; ++i) {
            if (changes[i].kind == change::bias && std::isinf(bias_of(changes[i], p))) return true;
        }
        return false;
    }
};

// What the parts of one rule share. `beyond` counts questions about queries, keys or heads that the call does not have.
struct dynamic_call {
    composition what;
    advice given = advice::exact;
    counts kept, unhidden;
    index heads = 1;
    mutable index beyond = 0;

    place at(imbrex::head_context const& ctx, index head, index q, index kv) const {
        place const p{ctx.batch, head, q - ctx.query_offset(), kv, ctx.q_len, ctx.kv_len};
        bool const there = p.query >= 0 && p.query < p.q_len && kv >= 0 && kv < p.kv_len && head >= ctx.head_first &&
                           head < ctx.head_first + ctx.head_count && head < heads;
        beyond += there ? 0 : 1;
        return p;
    }
};

struct dynamic_mask {
    dynamic_call const* call;

    template <class Ctx, class Q, class K>
    auto keep(Ctx const& ctx, Q const& q, K const& kv) const noexcept {
        auto const one = [&](index query, index key, index head) { return call->what.keeps(call->at(ctx, head, query, key)); };
        return imbrex::lanewise_mask(one, q, kv, ctx.head());
    }
    imbrex::coverage classify(imbrex::head_context const& ctx, imbrex::tile_window const& w) const noexcept {
        return call->kept.classify(ctx, w, call->given);
    }
    imbrex::kv_range kv_bounds(imbrex::head_context const& ctx, imbrex::position first, imbrex::position last) const noexcept {
        return call->kept.kv_bounds(ctx, first, last, call->given);
    }
};

template <imbrex::score_stage Stage>
struct dynamic_changes {
    dynamic_call const* call;
    static constexpr imbrex::score_stage stage = Stage;

    template <class Ctx, class S, class Q, class K>
    S transform(Ctx const& ctx, S const& s, Q const& q, K const& kv) const noexcept {
        using T = typename imbrex::scalar_of<S>::type;
        T before[imbrex::lane_count<T>];
        if constexpr (imbrex::is_lanes<S>) {
            s.store_unaligned(before);
        } else {
            before[0] = s;
        }
        index lane = 0;
        auto const one = [&](index query, index key, index head) {
            T const x = before[imbrex::is_lanes<S> ? lane++ : 0];
            return call->what.changed(Stage, call->at(ctx, head, query, key), x);
        };
        return imbrex::lanewise_score<S>(one, q, kv, ctx.head());
    }
    imbrex::coverage classify(imbrex::head_context const& ctx, imbrex::tile_window const& w) const noexcept {
        return Stage == imbrex::score_stage::bias ? call->unhidden.classify(ctx, w, call->given) : imbrex::coverage::full;
    }
};

template <int Number>
struct dynamic_sink {
    dynamic_call const* call;

    float sink(imbrex::row_context<imbrex::position> const& ctx) const noexcept {
        index const salt = call->what.sinks[Number];
        return salt == 0 ? -std::numeric_limits<float>::infinity() : sink_of(salt, ctx.head());
    }
};

// The whole rule, in an order unlike that of its effects.
inline auto dynamic_rule(dynamic_call const& call) {
    using imbrex::operator|;    // none of the parts is the library's
    return dynamic_sink<0>{&call} | dynamic_changes<imbrex::score_stage::bias>{&call} | dynamic_mask{&call} |
           dynamic_changes<imbrex::score_stage::cap>{&call} | dynamic_changes<imbrex::score_stage::scale>{&call} | dynamic_sink<1>{&call};
}

}    // namespace imbrex_test
