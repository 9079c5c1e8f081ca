// Gemma-style layers: all cap their scores softly, and every other one looks at a sliding window only. 8 query heads on 4 kv heads.
// Each layer is one rule, a value; its result is compared with plain loops.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <string_view>
#include <vector>

#include <imbrex/imbrex.hpp>

namespace {

using imbrex::index;

constexpr index tokens = 320, q_heads = 8, kv_heads = 4, head_dim = 64, window_keys = 128;
constexpr double cap = 50;
constexpr double scale = 1 / 8.0;    // of the queries, before the cap

imbrex::shape4 const q_shape{.batch = 1, .tokens = tokens, .heads = q_heads, .head_dim = head_dim};
imbrex::shape4 const kv_shape{.batch = 1, .tokens = tokens, .heads = kv_heads, .head_dim = head_dim};

struct layer {
    std::vector<float> q, k, v;    // token x head x head_dim, positions already in q and k

    explicit layer(int number) : q(numbers(q_shape, number)), k(numbers(kv_shape, number + 1)), v(numbers(kv_shape, number + 2)) {}

    static std::vector<float> numbers(imbrex::shape4 const& shape, int seed) {
        std::vector<float> x(static_cast<std::size_t>(shape.elements()));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = 2 * std::sin(static_cast<float>((i % 997) * (i % 11 + 1)) + static_cast<float>(seed));
        return x;
    }
};

imbrex::status attend(layer const& x, auto const& rule, std::vector<float>& out) {
    imbrex::dense_kv const kv{imbrex::bshd(x.k.data(), kv_shape), imbrex::bshd(x.v.data(), kv_shape)};
    return imbrex::attention(imbrex::bshd(x.q.data(), q_shape), kv, imbrex::bshd(out.data(), q_shape), rule,
                             {.scale = scale, .workspace = imbrex::allocate{}});
}

// The largest difference from plain loops, in which a query sees `keys` keys, its own the last.
double error_of(layer const& x, index keys, std::vector<float> const& out) {
    auto const q = imbrex::bshd(x.q.data(), q_shape), o = imbrex::bshd(out.data(), q_shape);
    auto const k = imbrex::bshd(x.k.data(), kv_shape), v = imbrex::bshd(x.v.data(), kv_shape);
    double largest = 0;
    for (index h = 0; h < q_heads; ++h) {
        for (index i = 0; i < tokens; i += 7) {
            std::vector<double> sum(head_dim);
            double weights = 0;
            for (index j = std::max<index>(0, i - keys + 1); j <= i; ++j) {
                double score = 0;
                for (index d = 0; d < head_dim; ++d) score += double{q.row(0, i, h)[d]} * double{k.row(0, j, h / 2)[d]};
                double const weight = std::exp(cap * std::tanh(scale * score / cap));
                weights += weight;
                for (index d = 0; d < head_dim; ++d) sum[static_cast<std::size_t>(d)] += weight * double{v.row(0, j, h / 2)[d]};
            }
            for (index d = 0; d < head_dim; ++d) {
                double const difference = std::abs(double{o.row(0, i, h)[d]} - sum[static_cast<std::size_t>(d)] / weights);
                largest = std::isnan(difference) ? 1 : std::max(largest, difference);
            }
        }
    }
    return largest;
}

bool report(int number, std::string_view kind, imbrex::status const& s, double error) {
    if (!s) std::cerr << s.message().view() << '\n';
    std::cout << "layer " << number << ", " << kind << ": within " << error << " of plain loops\n";
    return s.ok() && error < 1e-4;
}

}    // namespace

int main() {
    imbrex::causal const causal{imbrex::align::bottom_right};
    auto const global = causal | imbrex::softcap{cap};
    auto const local = (causal && imbrex::window{.left = window_keys - 1, .right = 0}) | imbrex::softcap{cap};

    std::vector<float> out(static_cast<std::size_t>(q_shape.elements()));
    bool right = true;
    for (int number = 0; number < 4; ++number) {
        layer const x{number};
        bool const slides = number % 2 == 0;
        imbrex::status const s = slides ? attend(x, local, out) : attend(x, global, out);
        right = report(number, slides ? "window of 128" : "all keys     ", s, error_of(x, slides ? window_keys : tokens, out)) && right;
    }
    return right ? 0 : 1;
}
