// Continuous batching over a paged cache: requests come and go, those with the same prompt share its full pages, and each step is
// one call in which chunks of prompts and single new tokens are packed, on a plan made once. Every output is compared with plain
// loops over the request's own tokens, which know neither pages nor batches.
#include <algorithm>
#include <cmath>
#include <deque>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include <imbrex/imbrex.hpp>

namespace {

using imbrex::index;
using imbrex::position;
using numbers = std::vector<float>;

constexpr index q_heads = 4, kv_heads = 2, head_dim = 32, page_size = 8, pages = 14;
constexpr index most_requests = 4, chunk = 12, longest = 64;

// A model of one layer: a token's query, key and value rows are made up, and the largest number put out names the next token.
enum kind { query = 1, key = 2, value = 3 };
float made_up(kind of, int token, index i) { return 1.5f * std::sin(static_cast<float>((token + 3) * (i % 37 + 2) * of + i)); }
int next_token(float const* out) { return static_cast<int>(std::max_element(out, out + q_heads * head_dim) - out); }

struct request {
    std::string name;
    int arrives;                      // at this step
    std::vector<int> tokens;          // the prompt, then what was generated
    index last;                       // tokens to stop at
    index cached = 0;                 // tokens whose keys and values are in the cache
    std::vector<position> pages{};    // of those, in order
    bool done() const { return std::ssize(tokens) == last; }
};

class page_pool {
public:
    bool has(index count) const { return std::ssize(free_) >= count; }
    position take() {
        position const id = free_.back();
        free_.pop_back();
        return share(id);
    }
    position share(position id) { return ++users_[static_cast<std::size_t>(id)], id; }
    void release(std::vector<position> const& ids) {
        for (position const id : ids) {
            if (--users_[static_cast<std::size_t>(id)] == 0) free_.push_back(id);
        }
    }
    index used() const { return pages - std::ssize(free_); }
    index shared() const {
        return std::ranges::count_if(users_, [](int n) { return n > 1; });
    }

    page_pool() {
        for (position id = 0; id < pages; ++id) free_.push_back(id);
    }

private:
    std::vector<int> users_ = std::vector<int>(pages);
    std::vector<position> free_;
};

class engine {
public:
    engine() {
        imbrex::rope_frequencies(10000, {}, frequencies_);
        // Capacities: steps of fewer, shorter requests run on it too.
        imbrex::problem const most{most_requests, chunk,    longest,  q_heads,
                                   kv_heads,      head_dim, head_dim, imbrex::kv_layout::paged};
        report(imbrex::make_plan<imbrex::precision<float>>(most, plan_));
        scratch_.resize(imbrex::workspace_bytes(plan_));
    }

    // Whether a request may start: a place, and pages for all it may come to hold.
    bool admit(request& r) {
        if (std::ssize(running_) == most_requests) return false;
        std::vector<position> const prefix = pages_in_common(r);
        index const whole = (r.last + page_size - 1) / page_size;
        if (!pool_.has(whole - std::ssize(prefix))) return false;
        for (position const id : prefix) r.pages.push_back(pool_.share(id));
        r.cached = std::ssize(prefix) * page_size;
        while (std::ssize(r.pages) < whole) r.pages.push_back(pool_.take());
        running_.push_back(r);
        return true;
    }

    // One call for all running requests. False if something failed.
    bool step(int number) {
        std::vector<position> starts{0}, lengths, ids, id_starts{0};
        numbers q;
        std::string what;
        for (request& r : running_) {
            index const count = std::min<index>(chunk, std::ssize(r.tokens) - r.cached);
            if (!report(append(r, count, q))) return false;
            r.cached += count;
            starts.push_back(static_cast<position>(starts.back() + count));
            lengths.push_back(static_cast<position>(r.cached));
            ids.insert(ids.end(), r.pages.begin(), r.pages.end());
            id_starts.push_back(static_cast<position>(ids.size()));
            what += r.name + '+' + std::to_string(count) + ' ';
        }
        numbers out(q.size());
        imbrex::shape4 const shape{1, starts.back(), q_heads, head_dim};
        imbrex::packed_queries<float> const queries{imbrex::bshd(q.data(), shape), starts};
        imbrex::paged_kv const kv{keys(), values(), imbrex::block_table{ids, 0, id_starts}, std::span<position const>{lengths}};
        if (!report(imbrex::attention(plan_, queries, kv, imbrex::bshd(out.data(), shape),
                                      imbrex::causal{imbrex::align::bottom_right}, {.workspace = scratch_}))) {
            return false;
        }
        double const error = check_and_generate(starts, out);
        std::cout << std::setw(4) << number << std::setw(7) << pool_.used() << std::setw(8) << pool_.shared() << std::setw(14)
                  << error << "   " << what << '\n';
        std::erase_if(running_, [&](request const& r) { return r.done() ? pool_.release(r.pages), true : false; });
        return error < 1e-5;
    }

    bool idle() const { return running_.empty(); }

private:
    imbrex::tensor_view<float> keys() { return imbrex::bshd(k_.data(), {pages, page_size, kv_heads, head_dim}); }
    imbrex::tensor_view<float> values() { return imbrex::bshd(v_.data(), {pages, page_size, kv_heads, head_dim}); }
    imbrex::rope turn() const { return {.rotary_dim = head_dim, .frequencies = frequencies_}; }

    static bool report(imbrex::status const& s) {
        if (!s) std::cerr << s.message().view() << '\n';
        return s.ok();
    }

    // The longest run of full pages that some running request has filled with the first tokens of r; r's last one is left to it.
    std::vector<position> pages_in_common(request const& r) const {
        std::vector<position> best;
        for (request const& other : running_) {
            auto const most = std::min(other.cached, std::ssize(r.tokens) - 1);
            auto const differs = std::mismatch(r.tokens.begin(), r.tokens.begin() + most, other.tokens.begin()).first;
            auto const common = (differs - r.tokens.begin()) / page_size;
            if (common > std::ssize(best)) best.assign(other.pages.begin(), other.pages.begin() + common);
        }
        return best;
    }

    // The next `count` tokens of r: their keys (turned) and values go to its pages, their turned queries behind q.
    imbrex::status append(request const& r, index count, numbers& q) {
        numbers k, v;
        imbrex::rope_turn turned;
        for (index t = r.cached; t < r.cached + count; ++t) {
            int const token = r.tokens[static_cast<std::size_t>(t)];
            for (index i = 0; i < kv_heads * head_dim; ++i)
                k.push_back(made_up(key, token, i)), v.push_back(made_up(value, token, i));
            for (index i = 0; i < q_heads * head_dim; ++i) q.push_back(made_up(query, token, i));
            turned.to(turn(), static_cast<position>(t));
            for (index h = 1; h <= q_heads; ++h) turned.turn(q.data() + std::ssize(q) - h * head_dim);
        }
        imbrex::shape4 const fresh{1, count, kv_heads, head_dim};
        position const first[] = {static_cast<position>(r.cached)};
        imbrex::block_table const table{r.pages, std::ssize(r.pages), {}};
        return imbrex::append(imbrex::bshd(k.data(), fresh), imbrex::bshd(v.data(), fresh), imbrex::encoded_rows{keys()},
                              imbrex::encoded_rows{values()}, {.first = first, .turn = turn()}, imbrex::paged_slots{table});
    }

    // The largest error of this step; requests whose tokens are all cached get their next one.
    double check_and_generate(std::vector<position> const& starts, numbers const& out) {
        double largest = 0;
        for (std::size_t s = 0; s < running_.size(); ++s) {
            request& r = running_[s];
            for (index row = starts[s]; row < starts[s + 1]; ++row) {
                for (index h = 0; h < q_heads; ++h) {
                    float const* const ours = out.data() + (row * q_heads + h) * head_dim;
                    double const e = error_of(r.tokens, r.cached - starts[s + 1] + row, h, ours);
                    largest = std::isnan(e) ? 1 : std::max(largest, e);
                }
            }
            float const* const newest = out.data() + (starts[s + 1] - 1) * q_heads * head_dim;
            if (r.cached == std::ssize(r.tokens)) r.tokens.push_back(next_token(newest));
        }
        return largest;
    }

    // Number d of a made-up row at a position, turned, in double.
    static double turned(kind of, std::vector<int> const& tokens, index at, index head, index d) {
        auto const x = [&](index i) { return double{made_up(of, tokens[static_cast<std::size_t>(at)], head * head_dim + i)}; };
        constexpr index half = head_dim / 2;
        double const angle = static_cast<double>(at) * std::pow(1e4, -static_cast<double>(d % half) / half);
        return x(d) * std::cos(angle) + (d < half ? -x(d + half) : x(d - half)) * std::sin(angle);
    }

    // How far the output of token i, head h, is from plain attention.
    static double error_of(std::vector<int> const& tokens, index i, index h, float const* out) {
        index const kv_head = h / (q_heads / kv_heads);
        std::vector<double> sum(head_dim), q;
        double weights = 0, largest = 0;
        for (index d = 0; d < head_dim; ++d) q.push_back(turned(query, tokens, i, h, d));
        for (index j = 0; j <= i; ++j) {
            double score = 0;
            for (index d = 0; d < head_dim; ++d) score += q[static_cast<std::size_t>(d)] * turned(key, tokens, j, kv_head, d);
            double const weight = std::exp(score / std::sqrt(static_cast<double>(head_dim)));
            int const token = tokens[static_cast<std::size_t>(j)];
            weights += weight;
            for (index d = 0; d < head_dim; ++d)
                sum[static_cast<std::size_t>(d)] += weight * double{made_up(value, token, kv_head * head_dim + d)};
        }
        for (index d = 0; d < head_dim; ++d) {
            double const difference = std::abs(double{out[d]} - sum[static_cast<std::size_t>(d)] / weights);
            largest = std::isnan(difference) ? 1 : std::max(largest, difference);
        }
        return largest;
    }

    numbers k_ = numbers(pages * page_size * kv_heads * head_dim, std::nanf("")), v_ = k_;    // what is not written yet is NaN
    numbers frequencies_ = numbers(head_dim / 2);
    page_pool pool_;
    imbrex::plan plan_;
    std::vector<std::byte> scratch_;
    std::vector<request> running_;
};

std::vector<int> prompt(int topic, int tokens) {
    std::vector<int> t;
    for (int i = 0; i < tokens; ++i) t.push_back((topic * 31 + i * i * 7) % 101);
    return t;
}

}    // namespace

int main() {
    // b and c have a's prompt, c with more behind it; d waits for pages.
    std::deque<request> waiting{{"a", 0, prompt(1, 21), 32}, {"b", 3, prompt(1, 21), 26}, {"c", 4, prompt(1, 29), 34},
                                {"d", 5, prompt(2, 40), 44}, {"e", 6, prompt(3, 5), 10},  {"f", 20, prompt(4, 1), 5}};
    engine serving;
    std::cout << "step  pages  shared  largest error   tokens of each request\n";
    for (int step = 0; !waiting.empty() || !serving.idle(); ++step) {
        while (!waiting.empty() && waiting.front().arrives <= step && serving.admit(waiting.front())) waiting.pop_front();
        if (!serving.idle() && !serving.step(step)) return 1;
    }
}
