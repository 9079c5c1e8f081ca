// What is compiled once for each instruction set, for the sources that compile it and for those that call it.
#pragma once

#include <imbrex/dispatch.hpp>
#include <imbrex/kv/dense.hpp>
#include <imbrex/options.hpp>

namespace example {

struct attention_kernels {
    // Causal, f32; shapes as imbrex::attention's.
    imbrex::status (*attend)(imbrex::tensor_view<float const> q, imbrex::dense_kv<float> const& kv,
                             imbrex::tensor_view<float> out, imbrex::options const& options);
    // Which path such a call takes.
    imbrex::status_text (*path)(imbrex::tensor_view<float const> q, imbrex::dense_kv<float> const& kv,
                                imbrex::tensor_view<float> out);
};
IMBREX_DISPATCHED(attention_kernels)

}    // namespace example
