// The tensors of one call as checks.hpp sees them, to be spoiled by its tests.
#pragma once

#include "imbrex/checks.hpp"

namespace imbrex_test {

using imbrex::errc;
using imbrex::index;
using imbrex::shape4;
using imbrex::status;
using imbrex::strides4;
using imbrex::tensor_facts;
using imbrex::tensor_role;

// The tensors of one call. Nothing is ever read through them.
struct call {
    tensor_facts q, k, v, out, lse{};

    status check() const { return imbrex::check_call({q, out, lse, {}, {k, v}}); }
    tensor_facts& of(tensor_role role) {
        tensor_facts* const all[] = {&q, &k, &v, &out, &lse};
        return *all[static_cast<int>(role)];
    }
};

inline constexpr tensor_role all_roles[] = {tensor_role::query, tensor_role::key, tensor_role::value, tensor_role::output,
                                            tensor_role::lse};
inline constexpr tensor_role inputs[] = {tensor_role::query, tensor_role::key, tensor_role::value};

inline float memory[1 << 16];

// A right call: batch 2, 3 queries on 5 keys, 4 heads on 2, head_dim 8 and 6.
inline call right_call() {
    shape4 const q{2, 3, 4, 8};
    return {tensor_facts::of(imbrex::bshd(memory, q)), tensor_facts::of(imbrex::bhsd(memory + 1024, {2, 5, 2, 8})),
            tensor_facts::of(imbrex::bhsd(memory + 2048, {2, 5, 2, 6})),
            tensor_facts::of(imbrex::bshd(memory + 4096, {2, 3, 4, 6})), tensor_facts::of(imbrex::bhs(memory + 8192, q), q)};
}

}    // namespace imbrex_test
