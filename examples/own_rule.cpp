// A rule of one's own: within a band, a query sees every other key. Written with keep alone it is right; with classify and
// kv_bounds, which say where it shows nothing, tiles are skipped and it is fast. Compared with plain loops, and timed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <string_view>
#include <vector>

#include <imbrex/imbrex.hpp>

namespace {

using imbrex::coverage;
using imbrex::head_context;
using imbrex::index;
using imbrex::position;
using imbrex::tile_window;

constexpr position reach = 200;

// Keep alone. q and kv are each a number or lanes of numbers, and so is what is made of them.
auto const every_other_key = imbrex::mask_fn{[](auto const&, auto const& q, auto const& kv) {
    return imbrex::mask_and(imbrex::mask_and(kv <= q, q - kv < reach), ((q - kv) & 1) == 0);
}};

// With the shortcuts: the whole rule in 15 lines.
struct every_other_key_fast {
    auto keep(auto const& ctx, auto const& q, auto const& kv) const { return every_other_key.keep(ctx, q, kv); }

    // What keep says of all queries and keys of a tile: none of them, or partly.
    coverage classify(head_context const&, tile_window const& w) const {
        bool const apart = w.kv_begin > w.q_last || w.kv_end - 1 <= w.q_first - reach;
        return apart ? coverage::none : coverage::partial;
    }
    // The keys that these queries may see at most.
    imbrex::kv_range kv_bounds(head_context const&, position q_first, position q_last) const {
        return {q_first - reach + 1, q_last + 1};
    }
};

constexpr index tokens = 2048, head_dim = 64;

struct tensors {
    std::vector<float> q, k, v;    // tokens x head_dim

    tensors() {
        for (std::vector<float>* const t : {&q, &k, &v}) {
            for (index i = 0; i < tokens * head_dim; ++i) {
                t->push_back(std::sin(static_cast<float>(i % 1009 * (i % 13 + 1) + i / tokens)));
            }
        }
    }
    float at(std::vector<float> const& t, index token, index d) const { return t[static_cast<std::size_t>(token * head_dim + d)]; }
};

// The largest difference of some rows from plain loops.
double error_of(tensors const& t, std::vector<float> const& out) {
    double largest = 0;
    for (index i = 0; i < tokens; i += 61) {
        std::vector<double> sum(head_dim);
        double weights = 0;
        for (index j = i; j >= 0 && j > i - reach; j -= 2) {
            double score = 0;
            for (index d = 0; d < head_dim; ++d) score += double{t.at(t.q, i, d)} * double{t.at(t.k, j, d)};
            double const weight = std::exp(score / std::sqrt(static_cast<double>(head_dim)));
            weights += weight;
            for (index d = 0; d < head_dim; ++d) sum[static_cast<std::size_t>(d)] += weight * double{t.at(t.v, j, d)};
        }
        for (index d = 0; d < head_dim; ++d) {
            double const difference = std::abs(double{t.at(out, i, d)} - sum[static_cast<std::size_t>(d)] / weights);
            largest = std::isnan(difference) ? 1 : std::max(largest, difference);
        }
    }
    return largest;
}

// Tiles of 64 queries x 128 keys of which the rule says that nothing in them is seen.
template <class Rule>
int tiles_skipped(Rule const& rule) {
    int skipped = 0;
    head_context const ctx{0, tokens, tokens};
    for (position q = 0; q < tokens; q += 64) {
        for (position kv = 0; kv < tokens; kv += 128) skipped += rule.classify(ctx, {q, q + 63, kv, kv + 128}) == coverage::none;
    }
    return skipped;
}

template <class Rule>
bool show(std::string_view name, Rule const& rule, tensors const& t) {
    imbrex::shape4 const shape{.batch = 1, .tokens = tokens, .heads = 1, .head_dim = head_dim};
    std::vector<float> out(t.q.size());
    imbrex::dense_kv const kv{imbrex::bshd(t.k.data(), shape), imbrex::bshd(t.v.data(), shape)};
    double best_ms = 1e9;
    for (int run = 0; run < 3; ++run) {
        auto const begin = std::chrono::steady_clock::now();
        imbrex::status const s = imbrex::attention(imbrex::bshd(t.q.data(), shape), kv, imbrex::bshd(out.data(), shape), rule,
                                                   {.workspace = imbrex::allocate{}});
        if (!s) {
            std::cerr << s.message().view() << '\n';
            return false;
        }
        best_ms = std::min(best_ms, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    double const error = error_of(t, out);
    std::cout << name << ": " << tiles_skipped(rule) << " of " << tokens / 64 * tokens / 128 << " tiles skipped, " << best_ms
              << " ms, within " << error << " of plain loops\n";
    return error < 1e-5;
}

}    // namespace

int main() {
    tensors const t;
    bool const right = show("keep alone   ", every_other_key, t);
    return show("with classify", every_other_key_fast{}, t) && right ? 0 : 1;
}
