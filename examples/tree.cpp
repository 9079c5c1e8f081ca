// Speculative decoding: one call scores a tree of draft tokens over a prefix, each draft seeing the prefix and its own ancestors.
// Then one path of the tree is accepted, and its rows are compared with decoding the same tokens one after another.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

#include <imbrex/imbrex.hpp>

namespace {

using imbrex::index;
using imbrex::position;

constexpr index prefix = 500, drafts = 7, q_heads = 4, kv_heads = 2, head_dim = 64;

//            0        drafts 0, 1, ...: each with its parent; -1 follows the prefix
//          1   2
//         3 4   5
//           6
std::vector<position> const parents{-1, 0, 0, 1, 1, 2, 4};
std::vector<index> const accepted{0, 1, 4, 6};    // from the root down

using numbers = std::vector<float>;

imbrex::shape4 shape(index tokens, index heads) { return {.batch = 1, .tokens = tokens, .heads = heads, .head_dim = head_dim}; }

numbers made_up(index tokens, index heads, float seed) {
    numbers x;
    for (index i = 0; i < shape(tokens, heads).elements(); ++i) x.push_back(std::sin(static_cast<float>(i % 991 * (i % 7 + 1)) + seed));
    return x;
}

// The newest tokens of a sequence against all of it. q, out: queries x q_heads x head_dim; k, v: keys x kv_heads x head_dim.
template <class Rule>
bool attend(index queries, float const* q, numbers const& k, numbers const& v, Rule const& rule, float* out) {
    imbrex::shape4 const kv_shape = shape(static_cast<index>(k.size()) / (kv_heads * head_dim), kv_heads);
    imbrex::dense_kv const kv{imbrex::bshd(k.data(), kv_shape), imbrex::bshd(v.data(), kv_shape)};
    imbrex::status const s = imbrex::attention(imbrex::bshd(q, shape(queries, q_heads)), kv,
                                               imbrex::bshd(out, shape(queries, q_heads)), rule, {.workspace = imbrex::allocate{}});
    if (!s) std::cerr << s.message().view() << '\n';
    return s.ok();
}

float largest_difference(float const* a, float const* b, index count) {
    float largest = 0;
    for (index i = 0; i < count; ++i) {
        float const difference = std::abs(a[i] - b[i]);
        largest = std::isnan(difference) ? 1 : std::max(largest, difference);
    }
    return largest;
}

}    // namespace

int main() {
    // Keys and values of the prefix and, after it, of all drafts: as they lie in a kv cache.
    numbers const q = made_up(drafts, q_heads, 1), k = made_up(prefix + drafts, kv_heads, 2), v = made_up(prefix + drafts, kv_heads, 3);
    std::vector<position> entry(drafts), exit(drafts);
    if (imbrex::status const s = imbrex::number_tree(parents, entry, exit); !s) {
        std::cerr << s.message().view() << '\n';
        return 1;
    }
    numbers in_tree(q.size());
    if (!attend(drafts, q.data(), k, v, imbrex::tree{entry, exit}, in_tree.data())) return 1;
    std::cout << drafts << " drafts over a prefix of " << prefix << " tokens in one call\n";

    // Token by token: the cache grows by the accepted drafts only.
    imbrex::index const kv_row = kv_heads * head_dim, q_row = q_heads * head_dim;
    numbers cached_k(k.begin(), k.begin() + prefix * kv_row), cached_v(v.begin(), v.begin() + prefix * kv_row);
    float largest = 0;
    for (imbrex::index const draft : accepted) {
        auto const append = [&](numbers& cache, numbers const& from) {
            cache.insert(cache.end(), from.begin() + (prefix + draft) * kv_row, from.begin() + (prefix + draft + 1) * kv_row);
        };
        append(cached_k, k);
        append(cached_v, v);
        numbers alone(static_cast<std::size_t>(q_row));
        if (!attend(1, q.data() + draft * q_row, cached_k, cached_v, imbrex::full{}, alone.data())) return 1;
        float const difference = largest_difference(alone.data(), in_tree.data() + draft * q_row, q_row);
        std::cout << "draft " << draft << ": within " << difference << " of decoding it on its own\n";
        largest = std::max(largest, difference);
    }
    return largest < 1e-5f ? 0 : 1;
}
