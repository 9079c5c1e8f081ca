// Compiled once for each instruction set.
#include "consumer_kernels.hpp"

#include <imbrex/attention.hpp>

static imbrex::status attend(imbrex::tensor_view<float const> q, imbrex::tensor_view<float const> k,
                             imbrex::tensor_view<float const> v, imbrex::tensor_view<float> out) {
    return imbrex::attention(q, imbrex::dense_kv{k, v}, out, imbrex::full{}, {.workspace = imbrex::allocate{}});
}

IMBREX_DISPATCH_TABLE(consumer_kernels, {attend, IMBREX_ISA_NAME})
