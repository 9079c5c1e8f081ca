// What is compiled for each instruction set. Only untagged vocabulary crosses it, since both sides of a call are compiled for
// different instructions.
#pragma once

#include <string_view>

#include "imbrex/dispatch.hpp"
#include "imbrex/view.hpp"

namespace imbrex_isa_test {

struct problem {
    imbrex::tensor_view<float const> q, k, v;
    imbrex::tensor_view<float> out;
};

struct isa_kernels {
    imbrex::status (*attend)(problem const& problem);
    std::string_view tag;    // of the instruction set that it was compiled for
};
IMBREX_DISPATCHED(isa_kernels)

}    // namespace imbrex_isa_test
