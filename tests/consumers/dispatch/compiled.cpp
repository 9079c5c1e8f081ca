// Calls without a template of ours instantiated here. All values are 1, so every output is 1, whatever the scores.
//     consumer_compiled [refused]     with "refused", the first call has to be an error
#include <imbrex/compiled.hpp>
#include <imbrex/plan.hpp>

#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

namespace ix = imbrex;

namespace {

constexpr ix::shape4 q_shape{.batch = 2, .tokens = 20, .heads = 4, .head_dim = 32};
constexpr ix::shape4 kv_shape{.batch = 6, .tokens = 16, .heads = 2, .head_dim = 32};    // pages, or with a batch of 1 tokens

template <class T>
bool all_ones(std::vector<T> const& values) {
    for (T const x : values) {
        if (!(std::fabs(static_cast<float>(x) - 1.f) < 1e-2f)) return false;
    }
    return true;
}

bool told(ix::status const& s) {
    if (!s) std::puts(s.message().c_str());
    return s.ok();
}

template <class T>
bool works() {
    std::vector<T> q, k, v(static_cast<std::size_t>(kv_shape.elements()), T(1.f)),
        out(static_cast<std::size_t>(q_shape.elements()));
    for (std::size_t i = 0; i < out.size(); ++i) q.push_back(T(std::sin(static_cast<float>(i))));
    for (std::size_t i = 0; i < v.size(); ++i) k.push_back(T(std::cos(static_cast<float>(i))));
    auto const queries = ix::bshd<T const>(q.data(), q_shape);
    auto const result = ix::bshd(out.data(), q_shape);
    ix::options const how{.workspace = ix::allocate{}};

    constexpr ix::shape4 dense{.batch = 2, .tokens = 48, .heads = 2, .head_dim = 32};
    ix::dense_kv const kv{ix::bshd<T const>(k.data(), dense), ix::bshd<T const>(v.data(), dense)};
    if (!told(ix::compiled::attention(queries, kv, result, ix::window{}, how)) || !all_ones(out)) return false;

    std::vector<ix::position> const ids{5, 0, 3, 1, 2, 4}, lengths{41, 33}, starts{0, 15, 40};
    ix::paged_kv const paged{ix::bshd<T const>(k.data(), kv_shape), ix::bshd<T const>(v.data(), kv_shape),
                             ix::block_table{ids, 3}, lengths};
    ix::plan plan;
    if (!told(ix::compiled::make_plan<T>({.batch = 2,
                                          .q_tokens = 25,
                                          .kv_tokens = 48,
                                          .q_heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 32,
                                          .layout = ix::kv_layout::paged},
                                         plan))) {
        return false;
    }
    std::puts(ix::path_of(plan).c_str());
    out.assign(out.size(), T(0.f));
    ix::packed_queries const packed{ix::bshd<T const>(q.data(), {1, 40, 4, 32}), std::span<ix::position const>{starts}};
    return told(
               ix::compiled::attention(plan, packed, paged, ix::bshd(out.data(), {1, 40, 4, 32}), ix::window{.right = 0}, how)) &&
           all_ones(out);
}

}    // namespace

int main(int argc, char** argv) {
    std::printf("%s\n", ix::compiled::reason().data());
    if (argc > 1 && std::string_view{argv[1]} == "refused") return ix::compiled::isa() == "none" && !works<float>() ? 0 : 1;
    return works<float>() && works<ix::bf16>() && works<ix::f16>() ? 0 : 1;
}
