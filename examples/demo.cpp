// Fused against plain attention on the queries, keys and values of a real transformer layer (data/README.md): how far the results
// are apart, the time and the extra memory of both, at the captured length and with the tokens repeated up to 8192. One thread.
//
//     demo [data/smollm2_layer12.bin]
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <Eigen/Core>

#include <imbrex/imbrex.hpp>

#ifndef IMBREX_DEMO_DATA
#define IMBREX_DEMO_DATA "examples/data/smollm2_layer12.bin"
#endif

namespace {

using imbrex::index;
using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr float largest_difference_allowed = 1e-4f;
constexpr index longest = 8192;

// q, k, v: (token, head, head_dim), f32, contiguous. q and k carry their rotary embedding.
struct sequence {
    index tokens = 0;
    index q_heads = 0;
    index kv_heads = 0;
    index head_dim = 0;
    index layer = 0;
    std::vector<float> q, k, v;

    imbrex::shape4 q_shape() const { return {1, tokens, q_heads, head_dim}; }
    imbrex::shape4 kv_shape() const { return {1, tokens, kv_heads, head_dim}; }
};

bool read_bf16(std::istream& file, index count, std::vector<float>& values) {
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
    file.read(reinterpret_cast<char*>(bits.data()), count * index{sizeof(std::uint16_t)});
    values.resize(bits.size());
    std::ranges::transform(bits, values.begin(), [](std::uint16_t b) { return std::bit_cast<float>(std::uint32_t{b} << 16); });
    return static_cast<bool>(file);
}

// Returns what is wrong, or an empty string.
std::string load(std::string const& path, sequence& s) {
    static_assert(std::endian::native == std::endian::little, "the data file is little-endian");
    std::ifstream file{path, std::ios::binary};
    if (!file) return "cannot open " + path;

    constexpr std::string_view magic = "IMBREXQKV1";
    std::array<char, 64> header{};
    std::array<std::int32_t, 5> fields{};
    file.read(header.data(), header.size());
    std::memcpy(fields.data(), header.data() + 12, sizeof fields);
    if (!file || std::string_view{header.data(), magic.size()} != magic) {
        return path + " is no capture file: it does not begin with IMBREXQKV1";
    }
    auto const in_range = [](std::int32_t n) { return n >= 1 && n <= longest; };
    if (!std::all_of(fields.begin(), fields.begin() + 4, in_range) || fields[1] % fields[2] != 0) {
        return path + " has a damaged header: sizes must be between 1 and 8192, and the query heads a multiple of the kv heads";
    }
    s.tokens = fields[0], s.q_heads = fields[1], s.kv_heads = fields[2], s.head_dim = fields[3], s.layer = fields[4];
    bool const whole = read_bf16(file, s.q_shape().elements(), s.q) && read_bf16(file, s.kv_shape().elements(), s.k) &&
                       read_bf16(file, s.kv_shape().elements(), s.v);
    return whole ? "" : path + " is shorter than its header says; fetch it again";
}

// The same tokens over and over, up to the given length.
sequence repeated(sequence const& s, index tokens) {
    sequence r = s;
    r.tokens = tokens;
    auto const fill = [](std::vector<float>& to, std::vector<float> const& from, index count) {
        to.resize(static_cast<std::size_t>(count));
        for (std::size_t i = from.size(); i < to.size(); ++i) to[i] = to[i - from.size()];
    };
    fill(r.q, s.q, r.q_shape().elements());
    fill(r.k, s.k, r.kv_shape().elements());
    fill(r.v, s.v, r.kv_shape().elements());
    return r;
}

// Attention as one writes it by hand, with care: per head all scores in one matrix allocated before (scores: tokens x tokens),
// softmax row by row over the keys that the row sees, and Eigen's matrix products.
void naive_attention(sequence const& s, matrix& scores, std::vector<float>& out) {
    auto const head = [&s](auto* data, index heads, index h) {
        using plain = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>, matrix const, matrix>;
        return Eigen::Map<plain, 0, Eigen::OuterStride<>>{data + h * s.head_dim, s.tokens, s.head_dim,
                                                          Eigen::OuterStride<>{heads * s.head_dim}};
    };
    float const scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    index const group = s.q_heads / s.kv_heads;
    for (index h = 0; h < s.q_heads; ++h) {
        scores.noalias() = scale * head(s.q.data(), s.q_heads, h) * head(s.k.data(), s.kv_heads, h / group).transpose();
        for (index i = 0; i < s.tokens; ++i) {
            auto seen = scores.row(i).head(i + 1).array();
            seen = (seen - seen.maxCoeff()).exp();
            seen /= seen.sum();
            scores.row(i).tail(s.tokens - i - 1).setZero();
        }
        head(out.data(), s.q_heads, h).noalias() = scores * head(s.v.data(), s.kv_heads, h / group);
    }
}

imbrex::status fused_attention(imbrex::plan const& plan, sequence const& s, std::vector<std::byte>& workspace,
                               std::vector<float>& out) {
    imbrex::dense_kv const kv{imbrex::bshd(s.k.data(), s.kv_shape()), imbrex::bshd(s.v.data(), s.kv_shape())};
    return imbrex::attention(plan, imbrex::bshd(s.q.data(), s.q_shape()), kv, imbrex::bshd(out.data(), s.q_shape()),
                             imbrex::causal{imbrex::align::bottom_right}, {.workspace = workspace});
}

float largest_difference(std::vector<float> const& a, std::vector<float> const& b) {
    float largest = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) {
        float const difference = std::abs(a[i] - b[i]);
        if (std::isnan(difference)) return std::numeric_limits<float>::infinity();
        largest = std::max(largest, difference);
    }
    return largest;
}

template <class Work>
double median_ms(int runs, Work work) {
    std::vector<double> ms;
    for (int run = 0; run < runs; ++run) {
        auto const begin = std::chrono::steady_clock::now();
        work();
        ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(ms);
    return ms[ms.size() / 2];
}

// One line on stderr that says what is running; on a terminal it is overwritten and at last wiped out.
class progress_line {
public:
    void show(std::string const& text) const {
        std::cerr << (terminal_ ? "\r\033[K" : "") << text << (terminal_ ? "" : "\n") << std::flush;
    }
    void clear() const {
        if (terminal_) std::cerr << "\r\033[K" << std::flush;
    }

private:
    bool const terminal_ = isatty(STDERR_FILENO) == 1;
};

struct measurement {
    index tokens = 0;
    float difference = 0.0f;
    double naive_ms = 0.0;
    double fused_ms = 0.0;
    std::size_t naive_bytes = 0;
    std::size_t fused_bytes = 0;
};

// Runs both on one sequence. On success the status is ok and m is filled in.
imbrex::status measure(sequence const& s, std::string const& step, progress_line const& progress, measurement& m) {
    using f32 = imbrex::precision<float, float, float, float>;
    imbrex::plan plan;
    imbrex::status status = imbrex::make_plan<f32>({.batch = 1,
                                                    .q_tokens = s.tokens,
                                                    .kv_tokens = s.tokens,
                                                    .q_heads = s.q_heads,
                                                    .kv_heads = s.kv_heads,
                                                    .head_dim = s.head_dim,
                                                    .head_dim_v = s.head_dim},
                                                   plan);
    if (!status) return status;

    std::vector<float> fused(s.q.size()), naive(s.q.size());
    std::vector<std::byte> workspace(imbrex::workspace_bytes(plan));
    progress.show(step + "fused");
    m.fused_ms = median_ms(3, [&] {
        if (status) status = fused_attention(plan, s, workspace, fused);
    });
    if (!status) return status;

    matrix scores = matrix::Zero(s.tokens, s.tokens);    // touched here, so that the time below holds no page faults
    progress.show(step + "naive");
    m.naive_ms = median_ms(s.tokens < longest ? 3 : 1, [&] { naive_attention(s, scores, naive); });

    m.tokens = s.tokens;
    m.difference = largest_difference(fused, naive);
    m.naive_bytes = static_cast<std::size_t>(scores.size()) * sizeof(float);
    m.fused_bytes = workspace.size();
    return status;
}

std::string mebibytes(std::size_t bytes) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
    return text.str();
}

void print_heading() {
    std::cout << "  tokens  largest difference  naive ms  fused ms  speed-up  naive's extra  fused's extra\n";
}

void print_row(measurement const& m) {
    std::ostringstream row;
    row << std::setw(8) << m.tokens << std::scientific << std::setprecision(1) << std::setw(20) << m.difference << std::fixed
        << std::setw(10) << m.naive_ms << std::setw(10) << m.fused_ms << std::setw(9) << m.naive_ms / m.fused_ms << "x"
        << std::setw(15) << mebibytes(m.naive_bytes) << std::setw(15) << mebibytes(m.fused_bytes);
    std::cout << row.str() << std::endl;
}

int fail(std::string_view sentence) {
    std::cerr << "demo: " << sentence << '\n';
    return 1;
}

}    // namespace

int main(int argc, char** argv) {
    sequence captured;
    if (std::string const wrong = load(argc > 1 ? argv[1] : IMBREX_DEMO_DATA, captured); !wrong.empty()) return fail(wrong);

    std::vector<imbrex::index> lengths{captured.tokens};
    for (imbrex::index const tokens : {1024, 2048, 4096, 8192}) {
        if (tokens > captured.tokens) lengths.push_back(tokens);
    }
    std::cout << "Layer " << captured.layer << " of a language model on " << captured.tokens
              << " tokens of English: " << captured.q_heads << " query heads on " << captured.kv_heads << " kv heads, head_dim "
              << captured.head_dim << ", causal, f32, 1 thread.\n";
    print_heading();

    progress_line const progress;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        sequence const s = repeated(captured, lengths[i]);
        std::string const step =
            '[' + std::to_string(i + 1) + '/' + std::to_string(lengths.size()) + "] " + std::to_string(s.tokens) + " tokens, ";
        measurement m;
        imbrex::status const status = measure(s, step, progress, m);
        progress.clear();
        if (!status) return fail(status.message());
        print_row(m);
        if (m.difference > largest_difference_allowed) {
            return fail("at " + std::to_string(m.tokens) +
                        " tokens fused and naive differ by more than 1e-4; please report this");
        }
    }
    std::cout << "Longer inputs repeat the captured tokens. Fused and naive agree to 1e-4 everywhere.\n";
}
