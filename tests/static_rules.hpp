// Fixed compositions of the library's rules against the dynamic rule of the same composition. Each static_rules_*_test.cpp has some.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "dynamic_run.hpp"

namespace imbrex_test {

// The tables of a composition's parts, in memory that ends where they end.
class rule_tables {
public:
    explicit rule_tables(dynamic_case const& c) : c_{c} {}

    dynamic_part<term> const& mask(int i) const { return c_.what.terms[i]; }
    dynamic_part<change> const& score(int i) const { return c_.what.changes[i]; }

    index keys() const { return c_.kv_tokens; }

    std::span<imbrex::position const> lengths(int i) {
        return positions(c_.batch, [&](index b) { return length_of(mask(i).salt, b, c_.kv_tokens); });
    }
    // (batch, Sk), from a segment term with b = 1.
    std::span<imbrex::position const> segment_ids(int i) {
        return positions(c_.batch * c_.kv_tokens, [&](index n) { return segment_of(mask(i), n / c_.kv_tokens, n % c_.kv_tokens); });
    }
    imbrex::score_view<std::uint8_t const> entries(int i) {
        dynamic_part<term> const& t = mask(i);
        return matrix(t.a, c_.q_tokens, c_.kv_tokens, [&](place const& p) { return std::uint8_t{element_of(t.salt, t.a, p) % 100 < t.b}; });
    }
    imbrex::bit_mask bits(int i) {
        imbrex::score_view<std::uint8_t const> const bytes = entries(i);
        imbrex::score_shape const& n = bytes.shape;
        index const row = (n.kv_tokens + 7) / 8, rows = n.batch * n.heads * n.q_tokens;
        guarded<std::uint8_t>& to = keep(bytes_, rows * row);
        std::ranges::fill(to, std::uint8_t{0});
        for (index r = 0; r < rows; ++r) {
            for (index j = 0; j < n.kv_tokens; ++j) {
                if (bytes.data[r * n.kv_tokens + j] == 0) continue;
                std::uint8_t& byte = to[static_cast<std::size_t>(r * row + j / 8)];
                byte = static_cast<std::uint8_t>(byte | 1 << j % 8);
            }
        }
        return imbrex::packed_bits(to.data(), n);
    }
    imbrex::score_view<std::uint8_t const> blocks(int i) {
        dynamic_part<term> const& t = mask(i);
        return matrix(shared_batch | shared_head, (c_.q_tokens + t.a - 1) / t.a, (c_.kv_tokens + t.b - 1) / t.b,
                      [&](place const& p) { return std::uint8_t{block_of(t.salt, p.query, p.key)}; });
    }
    imbrex::tree tree(int i) {
        index const n = std::min(mask(i).a, c_.kv_tokens);
        auto const parents = positions(n, [&](index node) { return parent_of(mask(i).salt, node); });
        guarded<imbrex::position>&entry = keep(positions_, n), &exit = keep(positions_, n);
        EXPECT_OK(imbrex::number_tree(parents, {entry.data(), entry.size()}, {exit.data(), exit.size()}));
        return {{entry.data(), entry.size()}, {exit.data(), exit.size()}};
    }

    std::span<float const> head_factors(int i) {
        return floats(c_.q_heads, [&](index h) { return head_factor(score(i).salt, h); });
    }
    std::span<float const> slopes(int i) {
        return floats(c_.q_heads, [&](index h) { return slope_of(score(i).salt, h); });
    }
    std::span<float const> temperatures(int i) {
        index const step = score(i).a;
        return floats(c_.kv_tokens / step + 1, [&](index n) { return temperature_of(score(i).salt, n * step - 1, step); });
    }
    imbrex::relative_bias relative(int i) {
        dynamic_part<change> const& c = score(i);    // by how far the key is before the query; the library's: after it
        index const width = 2 * c.a + 1;
        auto const table = floats(c_.q_heads * width, [&](index n) { return relative_of(c.salt, n / width, 2 * c.a - n % width); });
        return {table, c_.q_heads, static_cast<imbrex::position>(c.a)};
    }
    imbrex::score_view<float const> bias(int i) {
        dynamic_part<change> const& c = score(i);
        imbrex::score_shape const n = shape_of(c.a, c_.q_tokens, c_.kv_tokens);
        guarded<float>& to = keep(floats_, n.batch * n.heads * n.q_tokens * n.kv_tokens);
        for_each(n, [&](place const& p, index at) { to[static_cast<std::size_t>(at)] = bias_of(c, p); });
        return imbrex::score_matrix<float const>(to.data(), n);
    }
    std::span<float const> sink(int i) {
        return floats(c_.q_heads, [&](index h) { return sink_of(c_.what.sinks[i], h); });
    }

private:
    template <class T>
    static guarded<T>& keep(std::deque<guarded<T>>& all, index count) {
        return all.emplace_back(static_cast<std::size_t>(count));
    }
    template <class F>
    std::span<imbrex::position const> positions(index count, F const& at) {
        guarded<imbrex::position>& to = keep(positions_, count);
        for (index i = 0; i < count; ++i) to[static_cast<std::size_t>(i)] = static_cast<imbrex::position>(at(i));
        return {to.data(), to.size()};
    }
    template <class F>
    std::span<float const> floats(index count, F const& at) {
        guarded<float>& to = keep(floats_, count);
        for (index i = 0; i < count; ++i) to[static_cast<std::size_t>(i)] = at(i);
        return {to.data(), to.size()};
    }
    imbrex::score_shape shape_of(index shared, index queries, index keys) const {
        return {shared & shared_batch ? 1 : c_.batch, shared & shared_head ? 1 : c_.q_heads, shared & shared_query ? 1 : queries,
                shared & shared_key ? 1 : keys};
    }
    template <class F>
    static void for_each(imbrex::score_shape const& n, F const& f) {
        for (index at = 0; at < n.batch * n.heads * n.q_tokens * n.kv_tokens; ++at) {
            index const row = at / n.kv_tokens, head = row / n.q_tokens;
            f(place{head / n.heads, head % n.heads, row % n.q_tokens, at % n.kv_tokens}, at);
        }
    }
    template <class F>
    imbrex::score_view<std::uint8_t const> matrix(index shared, index queries, index keys, F const& says) {
        imbrex::score_shape const n = shape_of(shared, queries, keys);
        guarded<std::uint8_t>& to = keep(bytes_, n.batch * n.heads * n.q_tokens * n.kv_tokens);
        for_each(n, [&](place const& p, index at) { to[static_cast<std::size_t>(at)] = says(p); });
        return imbrex::score_matrix<std::uint8_t const>(to.data(), n);
    }

    dynamic_case const& c_;
    std::deque<guarded<imbrex::position>> positions_;
    std::deque<guarded<std::uint8_t>> bytes_;
    std::deque<guarded<float>> floats_;
};

// Every score, and every window of a coarse grid.
template <class Rule>
void expect_same_mask(dynamic_case const& c, dynamic_call const& dynamic, Rule const& rule) {
    using imbrex::position;
    auto const small = [](index n) { return static_cast<position>(n); };
    for (index b = 0; b < c.batch; ++b) {
        for (index h = 0; h < c.q_heads; ++h) {
            imbrex::head_context const ctx{b, small(c.q_tokens), small(c.kv_tokens), small(h), 1};
            imbrex::row_context<position> const row{ctx, small(h)};
            for (position i = 0; i < ctx.q_len; ++i) {
                for (position j = 0; j < ctx.kv_len; ++j) {
                    ASSERT_EQ(static_cast<bool>(imbrex::keeps(rule, row, ctx.query_offset() + i, j)), c.what.keeps(place_of(c, b, h, i, j)))
                        << "batch " << b << ", head " << h << ", query " << i << ", key " << j;
                }
            }
            for (position i = 0; i < ctx.q_len; i += 13) {
                for (position j = 0; j < ctx.kv_len; j += 16) {
                    position const i_end = std::min<position>(i + 13, ctx.q_len), j_end = std::min<position>(j + 16, ctx.kv_len);
                    imbrex::coverage const says = imbrex::classify_of(rule, ctx, {ctx.query_offset() + i, ctx.query_offset() + i_end - 1, j, j_end});
                    index const kept = dynamic.kept.count(b, h, i, i_end, j, j_end), all = index{i_end - i} * (j_end - j);
                    ASSERT_TRUE(says == imbrex::coverage::partial || kept == (says == imbrex::coverage::full ? all : 0))
                        << "head " << h << ", queries from " << i << ", keys from " << j << ": kept " << kept << " of " << all;
                }
            }
        }
    }
}

inline void expect_same_numbers(call_tensors<imbrex::precision<float>> const& a, call_tensors<imbrex::precision<float>> const& b) {
    double largest_value = 0;
    for (float const x : a.v.memory) largest_value = std::isnan(x) ? largest_value : std::max(largest_value, std::abs(double{x}));
    for (std::size_t i = 0; i < a.out.memory.size(); ++i) ASSERT_LE(std::abs(a.out.memory[i] - b.out.memory[i]), 6e-6 * largest_value) << "element " << i;
    for (std::size_t i = 0; i < a.lse.size(); ++i) ASSERT_LE(lse_error(a.lse[i], b.lse[i]), 2e-5) << "row " << i << ": " << a.lse[i] << " " << b.lse[i];
}

// composition: as text_of writes it; build(tables) returns the library's rule of the same. On both units, with and without GQA.
template <class Build>
void expect_like_dynamic(std::string const& composition, Build const& build) {
    using f32 = imbrex::precision<float>;
    char const* const shapes[] = {"batch=2 q=1 kv=70 heads=6 kv_heads=2 dim=16 dim_v=5 given=0",  "batch=1 q=4 kv=129 heads=2 kv_heads=1 dim=37 dim_v=37 bshd=1 given=1",
                                  "batch=2 q=40 kv=40 heads=2 kv_heads=2 dim=16 dim_v=16 given=2", "batch=1 q=65 kv=257 heads=3 kv_heads=1 dim=5 dim_v=16 given=1",
                                  "batch=2 q=70 kv=33 heads=2 kv_heads=1 dim=16 dim_v=8 bshd=1 given=0", "batch=1 q=3 kv=1 heads=1 kv_heads=1 dim=8 dim_v=8 given=0"};
    index seed = test_seed();
    for (char const* const shape : shapes) {
        std::string const line = "precision=0 " + std::string{shape} + " seed=" + std::to_string(++seed) + " " + composition;
        SCOPED_TRACE("IMBREX_CASE='" + line + "'");
        auto const c = case_of(line);
        ASSERT_TRUE(c.has_value());
        dynamic_call const dynamic = dynamic_call_of(*c);
        rule_tables tables{*c};
        auto const rule = build(tables);
        expect_same_mask(*c, dynamic, rule);
        call_tensors<f32> const ours{shapes_of(*c)}, theirs{shapes_of(*c)};
        fill_case(*c, dynamic, ours);
        fill_case(*c, dynamic, theirs);
        ASSERT_OK(planned(ours.q.view, ours.kv(), ours.out.view, rule, {.scale = scale_of(*c), .lse = imbrex::bhs(ours.lse.data(), ours.q.view.shape)}));
        ASSERT_OK(attend_dynamically(*c, dynamic, theirs, theirs.kv()));
        expect_same_numbers(ours, theirs);
    }
}

inline constexpr imbrex::causal bottom_right{imbrex::align::bottom_right}, top_left{imbrex::align::top_left};

}    // namespace imbrex_test
