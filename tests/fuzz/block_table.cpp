// Fuzz target: bytes become a call on paged keys and values, and whatever they say, the call is either right or refused.
//
// Well-formed calls must be computed: equal to plain loops in double, nothing else written, no use of any slot that no query sees
// (those are NaN). All others must be refused with nothing written. Every array ends at a forbidden page. run.sh builds it for
// libFuzzer; with replay.cpp it is a test of the kept corpus.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "fuzz/paged_call.hpp"
#include "guard.hpp"

namespace imbrex_test {
namespace {

using imbrex::tensor_view;

[[noreturn]] void fail(char const* what, imbrex::status const& s = {}) {
    std::fprintf(stderr, "block_table: %s; status: %s\n", what, s.message().c_str());
    std::abort();
}

guarded<position> guard_of(numbers const& n) {
    guarded<position> g{n.size()};
    std::copy(n.begin(), n.end(), g.data());
    return g;
}

std::span<position const> span_of(guarded<position> const& g) { return {g.data(), g.size()}; }

std::size_t elements(shape4 const& s) {
    return static_cast<std::size_t>(std::max<index>(0, s.batch) * std::max<index>(0, s.tokens) * std::max<index>(0, s.heads) *
                                    std::max<index>(0, s.head_dim));
}

// The call's tensors. All is NaN at first; a well-formed call's queries and the slots that some query sees become numbers.
struct tensors {
    guarded<float> q_memory, k_memory, v_memory, out_memory, lse_memory;
    tensor_view<float> q, k, v, out;
    imbrex::row_stats_view<float> lse;

    explicit tensors(paged_call const& c)
        : q_memory{elements(c.q)},
          k_memory{elements(c.k)},
          v_memory{elements(c.v)},
          out_memory{elements(c.out)},
          lse_memory{elements({c.q.batch, c.q.tokens, c.q.heads, 1})},
          q{imbrex::bshd(q_memory.data(), c.q)},
          k{imbrex::bshd(k_memory.data(), c.k)},
          v{imbrex::bshd(v_memory.data(), c.v)},
          out{imbrex::bshd(out_memory.data(), c.out)},
          lse{imbrex::bhs(lse_memory.data(), c.q)} {
        if (c.heads_first) k = imbrex::bhsd(k_memory.data(), c.k), v = imbrex::bhsd(v_memory.data(), c.v);
    }

    void set(paged_call const& c) const {
        for (index s = 0; s < sequences_of(c); ++s) {
            sequence const x{c, s};
            for (index i = 0; i < x.queries; ++i) {
                for (index h = 0; h < c.q.heads; ++h) set_row(q, x.batch, x.first + i, h);
                for (index j = x.first_seen(i); j < x.end_seen(i) && c.q.heads > 0; ++j) {
                    index const id = page_of(c, s, j);
                    for (index h = 0; h < c.k.heads; ++h) set_row(k, id, j % c.k.tokens, h), set_row(v, id, j % c.k.tokens, h);
                }
            }
        }
    }

    static index page_of(paged_call const& c, index s, index j) {
        return c.ids[static_cast<std::size_t>(first_id(c, s) + j / c.k.tokens)];
    }

private:
    static void set_row(tensor_view<float> const& t, index b, index token, index head) {
        float* const row = t.row(b, token, head);
        for (index d = 0; d < t.shape.head_dim; ++d) {
            auto const mixed = static_cast<std::uint32_t>(row + d - t.data + t.shape.head_dim) * 2654435761u;
            row[d] = static_cast<float>(mixed >> 8) / 8388608 - 1;    // in [-1, 1)
        }
    }
};

// One query row by plain loops in double, and what the call made of it. Its result is then cleared to "not written".
void check_row(paged_call const& c, tensors const& t, index s, sequence const& x, index i, index h) {
    index const kv_head = h / (c.q.heads / c.k.heads);
    std::vector<double> sum(static_cast<std::size_t>(c.v.head_dim));
    double weights = 0;
    float const* const q = t.q.row(x.batch, x.first + i, h);
    for (index j = x.first_seen(i); j < x.end_seen(i); ++j) {
        index const id = tensors::page_of(c, s, j), slot = j % c.k.tokens;
        double score = 0;
        for (index d = 0; d < c.q.head_dim; ++d) score += double{q[d]} * double{t.k.row(id, slot, kv_head)[d]};
        double const weight = std::exp(score / std::sqrt(static_cast<double>(c.q.head_dim)));
        weights += weight;
        for (index d = 0; d < c.v.head_dim; ++d)
            sum[static_cast<std::size_t>(d)] += weight * double{t.v.row(id, slot, kv_head)[d]};
    }
    float* const out = t.out.row(x.batch, x.first + i, h);
    for (index d = 0; d < c.v.head_dim; ++d) {
        double const expected = weights == 0 ? 0 : sum[static_cast<std::size_t>(d)] / weights;
        if (!(std::abs(double{out[d]} - expected) <= 1e-5)) fail("an output is not that of plain loops");
    }
    float* const lse = t.lse.at(x.batch, h, x.first + i);
    bool const right =
        weights == 0 ? *lse == -std::numeric_limits<float>::infinity() : std::abs(double{*lse} - std::log(weights)) <= 1e-4;
    if (!right) fail("a log-sum-exp is not that of plain loops");
    std::memset(out, 0xff, static_cast<std::size_t>(c.v.head_dim) * sizeof(float));
    std::memset(lse, 0xff, sizeof(float));
}

imbrex::status run(paged_call const& c, tensors const& t) {
    guarded<position> const ids = guard_of(c.ids), starts = guard_of(c.lists_starts), lengths = guard_of(c.lengths),
                            q_starts = guard_of(c.q_starts);
    imbrex::block_table const table{span_of(ids), c.width, span_of(starts)};
    imbrex::paged_kv<float> const kv{t.k, t.v, table, span_of(lengths)};
    auto const rule = imbrex::causal{imbrex::align::bottom_right} && imbrex::window{.left = c.left, .right = 0};
    using small_tiles =
        imbrex::fixed_tiles<imbrex::tile_shape{imbrex::lane_count<float>, 16}>;    // so that short calls have many
    imbrex::plan p;
    imbrex::packed_queries<float> const packed{t.q, span_of(q_starts)};
    imbrex::status const s =
        c.packed ? imbrex::plan_for<small_tiles>(packed, kv, t.out, p) : imbrex::plan_for<small_tiles>(t.q, kv, t.out, p);
    if (!s) return s;
    guarded<std::byte> const scratch{imbrex::workspace_bytes(p)};
    imbrex::options const o{.lse = t.lse, .workspace = std::span{scratch.data(), scratch.size()}};
    return c.packed ? imbrex::attention(p, packed, kv, t.out, rule, o) : imbrex::attention(p, t.q, kv, t.out, rule, o);
}

void check_call_of(std::uint8_t const* data, std::size_t size) {
    number_stream in{data, size};
    paged_call const c{in};
    tensors const t{c};
    bool const well_formed = shapes_fit(c) && queries_fit(c) && pages_fit(c);
    if (well_formed) t.set(c);
    imbrex::status const s = run(c, t);
    if (s.ok() && !well_formed) fail("a call that cannot be meant was computed", s);
    if (!s.ok() && well_formed) fail("a well-formed call was refused", s);
    for (index b = 0; s.ok() && b < sequences_of(c); ++b) {
        sequence const x{c, b};
        for (index i = 0; i < x.queries; ++i) {
            for (index h = 0; h < c.q.heads; ++h) check_row(c, t, b, x, i, h);
        }
    }
    if (!t.out_memory.poisoned() || !t.lse_memory.poisoned()) fail("more was written than the call's rows", s);
}

}    // namespace
}    // namespace imbrex_test

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    imbrex_test::check_call_of(data, size);
    return 0;
}
