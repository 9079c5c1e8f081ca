// Compiled once for each instruction set, with IMBREX_ISA_TEST set to its name.
#include "isa_entry.hpp"

#include "imbrex/imbrex.hpp"

#define IMBREX_ISA_TEST_JOIN(isa, what) imbrex_isa_test_##isa##_##what
#define IMBREX_ISA_TEST_ENTRY(isa, what) IMBREX_ISA_TEST_JOIN(isa, what)

extern "C" void IMBREX_ISA_TEST_ENTRY(IMBREX_ISA_TEST, attention)(imbrex_isa_test::problem const& problem, imbrex::status& result) {
    result = imbrex::attention(problem.q, imbrex::dense_kv{problem.k, problem.v}, problem.out,
                               imbrex::causal{imbrex::align::bottom_right}, {.workspace = imbrex::allocate{}});
}

extern "C" char const* IMBREX_ISA_TEST_ENTRY(IMBREX_ISA_TEST, name)() { return IMBREX_ISA_NAME; }
