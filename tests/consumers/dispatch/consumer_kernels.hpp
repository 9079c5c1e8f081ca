// What the consumer has compiled for each instruction set.
#pragma once

#include <imbrex/dispatch.hpp>
#include <imbrex/view.hpp>

struct consumer_kernels {
    imbrex::status (*attend)(imbrex::tensor_view<float const> q, imbrex::tensor_view<float const> k,
                             imbrex::tensor_view<float const> v, imbrex::tensor_view<float> out);
    std::string_view isa;
};
IMBREX_DISPATCHED(consumer_kernels)
