// Compiled once for each instruction set: see CMakeLists.txt. Everything here is private to its object but the table.
#include "attention_kernels.hpp"

#include <imbrex/attention.hpp>

namespace example {
namespace {

imbrex::status attend(imbrex::tensor_view<float const> q, imbrex::dense_kv<float> const& kv, imbrex::tensor_view<float> out,
                      imbrex::options const& options) {
    return imbrex::attention(q, kv, out, imbrex::causal{imbrex::align::bottom_right}, options);
}

imbrex::status_text path(imbrex::tensor_view<float const> q, imbrex::dense_kv<float> const& kv, imbrex::tensor_view<float> out) {
    imbrex::plan plan;
    imbrex::status const s = imbrex::plan_for(q, kv, out, plan);
    return s ? imbrex::path_of(plan) : s.message();
}

}    // namespace

IMBREX_DISPATCH_TABLE(attention_kernels, {.attend = attend, .path = path})

}    // namespace example
