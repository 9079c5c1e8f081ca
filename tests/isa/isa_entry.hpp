// The entry points of the two ISA objects: plain C symbols that carry the instruction set in their name.
// Only untagged vocabulary crosses them, since both sides of the call are compiled for different instructions.
#pragma once

#include "imbrex/status.hpp"
#include "imbrex/view.hpp"

namespace imbrex_isa_test {

struct problem {
    imbrex::tensor_view<float const> q, k, v;
    imbrex::tensor_view<float> out;
};

}    // namespace imbrex_isa_test

extern "C" {
void imbrex_isa_test_avx2_attention(imbrex_isa_test::problem const& problem, imbrex::status& result);
void imbrex_isa_test_avx512_attention(imbrex_isa_test::problem const& problem, imbrex::status& result);
char const* imbrex_isa_test_avx2_name();
char const* imbrex_isa_test_avx512_name();
}
