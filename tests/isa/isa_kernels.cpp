// Compiled once for each instruction set.
#include "isa_kernels.hpp"

#include <cstdint>
#include <vector>

#include "imbrex/imbrex.hpp"

namespace imbrex_isa_test {
namespace {

// Causal, with rules that change nothing but have vector code of their own.
imbrex::status attend(problem const& problem) {
    std::vector<std::uint8_t> const all(static_cast<std::size_t>(problem.k.shape.tokens), 1);
    auto const rule = (imbrex::causal{imbrex::align::bottom_right} &&
                       imbrex::mask_tensor{imbrex::score_matrix(all.data(), {1, 1, 1, problem.k.shape.tokens})}) |
                      imbrex::softcap{1e6};
    return imbrex::attention(problem.q, imbrex::dense_kv{problem.k, problem.v}, problem.out, rule,
                             {.workspace = imbrex::allocate{}});
}

}    // namespace

IMBREX_DISPATCH_TABLE(isa_kernels, {attend, IMBREX_TAG_TEXT})

}    // namespace imbrex_isa_test
