// Compiled once for each instruction set, with IMBREX_ISA_TEST set to its name.
#include "isa_entry.hpp"

#include <cstdint>
#include <vector>

#include "imbrex/imbrex.hpp"

#define IMBREX_ISA_TEST_JOIN(isa, what) imbrex_isa_test_##isa##_##what
#define IMBREX_ISA_TEST_ENTRY(isa, what) IMBREX_ISA_TEST_JOIN(isa, what)

extern "C" void IMBREX_ISA_TEST_ENTRY(IMBREX_ISA_TEST, attention)(imbrex_isa_test::problem const& problem, imbrex::status& result) {
    // Causal, with rules that change nothing but have vector code of their own.
    std::vector<std::uint8_t> const all(static_cast<std::size_t>(problem.k.shape.tokens), 1);
    float const nothing = 0;
    auto const rule = (imbrex::causal{imbrex::align::bottom_right} && imbrex::window{} &&
                       imbrex::mask_tensor{imbrex::score_matrix(all.data(), {1, 1, 1, problem.k.shape.tokens})}) |
                      imbrex::softcap{1e6} | imbrex::bias_tensor{imbrex::score_matrix(&nothing, {})};
    result = imbrex::attention(problem.q, imbrex::dense_kv{problem.k, problem.v}, problem.out, rule,
                               {.workspace = imbrex::allocate{}});
}

extern "C" char const* IMBREX_ISA_TEST_ENTRY(IMBREX_ISA_TEST, name)() { return IMBREX_ISA_NAME; }
