// What a call may be told besides its tensors. Nothing here depends on the instruction set.
#pragma once

#include <optional>

#include "imbrex/executor.hpp"
#include "imbrex/view.hpp"
#include "imbrex/workspace.hpp"

namespace imbrex {

struct options {
    std::optional<double> scale{};    // of q kT; default 1 / sqrt(head_dim)
    row_stats_view<float> lse{};      // receives log(sum(exp(score))) per row, natural; default: not wanted
    executor_ref executor{};          // default: the caller's thread
    workspace_ref workspace{};        // the caller's, workspace_bytes(plan, workers of the executor), or allocate{}
};

}    // namespace imbrex
