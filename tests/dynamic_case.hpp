// One random call of the dynamic rule: as a line of text, drawn from a seed, and made smaller while a fault stays.
#pragma once

#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "dynamic_rule.hpp"

namespace imbrex_test {

// All numbers, so that one table tells their names.
struct dynamic_case {
    index precision = 0;    // f32, bf16, f16, f64, f32 on bf16
    index batch = 1, q_tokens = 1, kv_tokens = 1;
    index q_heads = 1, kv_heads = 1;
    index head_dim = 1, head_dim_v = 1;
    index bshd = 0;         // memory order
    index one_kv = 0;       // one sequence of keys and values serves the batch
    index tiles = 0;        // tuned, small, smallest
    index scale = 0;        // in thousandths; 0: the default
    index given = 0;        // advice
    index seed = 0;         // of the tensors
    composition what{};
    friend bool operator==(dynamic_case const&, dynamic_case const&) = default;
};

inline constexpr index precisions = 5;

struct case_field {
    std::string_view name;
    index dynamic_case::* at;
};
inline constexpr case_field case_fields[] = {
    {"precision", &dynamic_case::precision}, {"batch", &dynamic_case::batch},       {"q", &dynamic_case::q_tokens},
    {"kv", &dynamic_case::kv_tokens},        {"heads", &dynamic_case::q_heads},     {"kv_heads", &dynamic_case::kv_heads},
    {"dim", &dynamic_case::head_dim},        {"dim_v", &dynamic_case::head_dim_v},  {"bshd", &dynamic_case::bshd},
    {"one_kv", &dynamic_case::one_kv},       {"tiles", &dynamic_case::tiles},       {"scale", &dynamic_case::scale},
    {"given", &dynamic_case::given},         {"seed", &dynamic_case::seed},
};
inline constexpr std::string_view term_names[] = {"all",     "top_left", "bottom_right", "window", "prefix", "chunk",  "length", "padding",
                                                  "segment", "tensor",   "tree",         "blocks", "both",   "either", "negated"};
inline constexpr std::string_view change_names[] = {"head_scale", "temperature", "softcap", "alibi", "relative", "bias"};

// E.g. "... seed=7 mask=window:5:-1:0,length:0:0:44,both score=softcap:20:0:0 sink=3". Parts are name:a:b:salt.
inline std::string text_of(composition const& what) {
    std::ostringstream text;
    for (int i = 0; i < what.term_count; ++i) {
        auto const& t = what.terms[i];
        text << (i == 0 ? " mask=" : ",") << term_names[static_cast<int>(t.kind)];
        if (t.kind < term::both) text << ':' << t.a << ':' << t.b << ':' << t.salt;
    }
    for (int i = 0; i < what.change_count; ++i) {
        auto const& c = what.changes[i];
        text << (i == 0 ? " score=" : ",") << change_names[static_cast<int>(c.kind)] << ':' << c.a << ':' << c.b << ':' << c.salt;
    }
    for (int i = 0; i < composition::most_sinks; ++i) {
        if (what.sinks[i] != 0 || (i == 0 && what.sinks[1] != 0)) text << (i == 0 ? " sink=" : ",") << what.sinks[i];
    }
    return text.str();
}
inline std::string text_of(dynamic_case const& c) {
    std::ostringstream text;
    for (case_field const& f : case_fields) text << (text.tellp() > 0 ? " " : "") << f.name << '=' << c.*f.at;
    return text.str() + text_of(c.what);
}

namespace parsing {

inline std::vector<std::string> split(std::string const& text, char at) {
    std::vector<std::string> parts;
    std::istringstream stream{text};
    for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
    return parts;
}

template <class Kind, std::size_t N>
bool parse_parts(std::string const& text, std::string_view const (&names)[N], int most, dynamic_part<Kind>* to, int& count) {
    for (std::string const& part : split(text, ',')) {
        std::vector<std::string> const words = split(part, ':');
        std::size_t kind = 0;
        while (kind < N && names[kind] != words[0]) ++kind;
        if (kind == N || count == most) return false;
        auto const number = [&](std::size_t i) { return i < words.size() ? std::stol(words[i]) : 0; };
        to[count++] = {static_cast<Kind>(kind), number(1), number(2), number(3)};
    }
    return true;
}

inline bool parse_field(std::string const& name, std::string const& value, dynamic_case& c) {
    if (name == "mask") return parse_parts(value, term_names, composition::most_terms, c.what.terms, c.what.term_count);
    if (name == "score") return parse_parts(value, change_names, composition::most_changes, c.what.changes, c.what.change_count);
    if (name == "sink") {
        auto const salts = split(value, ',');
        for (std::size_t i = 0; i < salts.size() && i < composition::most_sinks; ++i) c.what.sinks[i] = std::stol(salts[i]);
        return true;
    }
    for (case_field const& f : case_fields) {
        if (f.name == name) {
            c.*f.at = std::stol(value);
            return true;
        }
    }
    return false;
}

}    // namespace parsing

inline std::optional<dynamic_case> case_of(std::string const& text) {
    dynamic_case c;
    for (std::string const& word : parsing::split(text, ' ')) {
        std::size_t const equals = word.find('=');
        if (equals == std::string::npos || !parsing::parse_field(word.substr(0, equals), word.substr(equals + 1), c)) return {};
    }
    return c;
}

// Draws a case.
class case_maker {
public:
    explicit case_maker(std::uint32_t seed) : engine_{seed} {}

    dynamic_case draw() {
        dynamic_case c;
        c.precision = one_of({0, 0, 0, 1, 2, 3, 4});
        c.batch = one_of({1, 1, 2, 3});
        c.q_tokens = one_of({below(9), below(9), below(40), 15 + below(4), 63 + below(3), below(151)});
        c.kv_tokens = one_of({below(20), below(100), below(100), 63 + below(3), 127 + below(3), below(301), 255 + below(3)});
        if (c.q_tokens * c.kv_tokens > 6000) c.batch = 1;
        c.kv_heads = one_of({1, 1, 2, 3});
        c.q_heads = c.kv_heads * (c.q_tokens * c.kv_tokens > 6000 ? 1 + below(2) : one_of({1, 1, 2, 3, 5}));
        c.head_dim = one_of({1, 5, 16, 37, 64, 80});
        c.head_dim_v = one_of({c.head_dim, c.head_dim, 1, 5, 16, 37, 64, 80});
        c.bshd = below(2);
        c.one_kv = one_of({0, 0, 0, 1});
        c.tiles = below(3);
        c.scale = one_of({0, 0, 0, 1 + below(400), -1 - below(400)});
        c.given = one_of({0, 0, 1, 1, 2});
        c.seed = below(1 << 30);
        if (below(12) != 0) draw_mask(c, below(4) == 0 ? 3 : below(3));
        if (below(2) == 0) draw_changes(c);
        return c;
    }

private:
    index below(index n) { return static_cast<index>(engine_() % static_cast<std::uint32_t>(n)); }
    index one_of(std::initializer_list<index> choices) { return choices.begin()[below(static_cast<index>(choices.size()))]; }

    void draw_mask(dynamic_case& c, index depth) {
        composition& w = c.what;
        if (depth > 0) {
            draw_mask(c, depth - 1);
            draw_mask(c, below(depth));
            w.terms[w.term_count++].kind = below(3) == 0 ? term::either : term::both;
        } else {
            w.terms[w.term_count++] = draw_term(c);
        }
        if (below(8) == 0) w.terms[w.term_count++].kind = term::negated;
    }

    dynamic_part<term> draw_term(dynamic_case const& c) {
        dynamic_part<term> t{static_cast<term>(1 + below(static_cast<index>(term::blocks))), 0, 0, 1 + below(1 << 20)};
        index const length = c.kv_tokens + 1;
        switch (t.kind) {
            case term::window: t.a = below(length) - 1, t.b = one_of({-1, 0, below(length)}); break;
            case term::prefix: t.a = below(length); break;
            case term::chunk: t.a = one_of({1, 2, 16, 17, 64, 100}); break;
            case term::segment: t.a = one_of({1, 10, 16, 50}), t.b = below(2); break;
            case term::tensor: t.a = below(16), t.b = one_of({1, 30, 95, 100}); break;
            case term::tree: t.a = below(length); break;
            case term::blocks: t.a = one_of({1, 16, 20}), t.b = one_of({16, 32, 50}); break;
            default: break;
        }
        return t;
    }

    void draw_changes(dynamic_case& c) {
        composition& w = c.what;
        for (index n = 1 + below(composition::most_changes); n > 0; --n) {
            dynamic_part<change> p{static_cast<change>(below(6)), 0, 0, 1 + below(1 << 20)};
            if (p.kind == change::softcap) p.a = one_of({1, 5, 30});
            if (p.kind == change::temperature) p.a = one_of({1, 8, 33});
            if (p.kind == change::relative) p.a = one_of({0, 3, 20});
            if (p.kind == change::bias) p.a = below(16), p.b = one_of({0, 0, 10, 90});
            w.changes[w.change_count++] = p;
        }
        for (index& salt : w.sinks) salt = below(3) == 0 ? 1 + below(1 << 20) : 0;
    }

    std::mt19937 engine_;
};

// The first of the terms that the one at `last` is the root of.
inline int first_term_of(composition const& what, int last) {
    int wanted = 1, at = last;
    for (;; --at) {
        term const kind = what.terms[at].kind;
        wanted += kind == term::both || kind == term::either ? 1 : kind == term::negated ? 0 : -1;
        if (wanted == 0) return at;
    }
}

// Cases a step simpler than this one.
inline std::vector<dynamic_case> simpler(dynamic_case const& c) {
    std::vector<dynamic_case> all;
    auto const with = [&](auto const& edit) {
        dynamic_case next = c;
        edit(next);
        if (!(next == c) && next.q_heads % next.kv_heads == 0) all.push_back(next);
    };
    auto const erase = [](auto* parts, int& count, int first, int end) {
        std::move(parts + end, parts + count, parts + first);
        for (int i = count - (end - first); i < count; ++i) parts[i] = {};
        count -= end - first;
    };
    for (int i = c.what.term_count - 1; i >= 0; --i) {
        term const kind = c.what.terms[i].kind;
        if (kind == term::both || kind == term::either) {    // one side of it alone
            int const right = first_term_of(c.what, i - 1), left = first_term_of(c.what, right - 1);
            with([&](dynamic_case& n) {
                erase(n.what.terms, n.what.term_count, i, i + 1);
                erase(n.what.terms, n.what.term_count, right, i);
            });
            with([&](dynamic_case& n) {
                erase(n.what.terms, n.what.term_count, i, i + 1);
                erase(n.what.terms, n.what.term_count, left, right);
            });
        } else if (kind == term::negated || c.what.term_count == 1) {
            with([&](dynamic_case& n) { erase(n.what.terms, n.what.term_count, i, i + 1); });
        }
    }
    for (int i = 0; i < c.what.change_count; ++i) with([&](dynamic_case& n) { erase(n.what.changes, n.what.change_count, i, i + 1); });
    for (int i = 0; i < composition::most_sinks; ++i) with([&](dynamic_case& n) { n.what.sinks[i] = 0; });
    for (auto const field : {&dynamic_case::precision, &dynamic_case::bshd, &dynamic_case::one_kv, &dynamic_case::scale, &dynamic_case::tiles})
        with([&](dynamic_case& n) { n.*field = 0; });
    with([](dynamic_case& n) { n.q_heads = n.kv_heads = 1; });
    with([](dynamic_case& n) { n.q_heads = n.kv_heads; });
    for (auto const field : {&dynamic_case::batch, &dynamic_case::head_dim, &dynamic_case::head_dim_v, &dynamic_case::q_heads, &dynamic_case::kv_heads,
                             &dynamic_case::q_tokens, &dynamic_case::kv_tokens}) {
        index const least = field == &dynamic_case::q_tokens || field == &dynamic_case::kv_tokens ? 0 : 1;
        with([&](dynamic_case& n) { n.*field = std::max(least, n.*field / 2); });
        with([&](dynamic_case& n) { n.*field = std::max(least, n.*field - 1); });
    }
    return all;
}

// The simplest case that steps from this failing one lead to and that fails too.
template <class Fails>
dynamic_case shrunk(dynamic_case c, Fails const& fails, int tries = 1000) {
    for (bool again = true; again;) {
        again = false;
        for (dynamic_case const& next : simpler(c)) {
            if (--tries < 0) return c;
            if (!fails(next)) continue;
            c = next;
            again = true;
            break;
        }
    }
    return c;
}

}    // namespace imbrex_test
