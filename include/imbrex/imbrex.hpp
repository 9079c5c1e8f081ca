// imbrex: fused, tiled, exact attention for CPUs. Everything but the opt-in headers (eigen.hpp, executors/).
#pragma once

#include "imbrex/attention.hpp"
#include "imbrex/rules/block_sparse.hpp"
#include "imbrex/rules/chunked.hpp"
#include "imbrex/rules/documents.hpp"
#include "imbrex/rules/lengths.hpp"
#include "imbrex/rules/mask_fn.hpp"
#include "imbrex/rules/mask_tensor.hpp"
#include "imbrex/rules/prefix.hpp"
#include "imbrex/rules/tree.hpp"
#include "imbrex/rules/window.hpp"
