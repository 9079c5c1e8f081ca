// imbrex: fused, tiled, exact attention for CPUs. Everything but the opt-in headers:
//   eigen.hpp          views of Eigen's maps and matrices
//   executors/*.hpp    a small team of threads, OpenMP, any pool that has submit
//   dispatch.hpp       code for several instruction sets in one binary, chosen at run time
//   compiled.hpp       common calls compiled beforehand, without templates
#pragma once

#include "imbrex/attention.hpp"
#include "imbrex/kv/append.hpp"
#include "imbrex/merge.hpp"
#include "imbrex/rules/alibi.hpp"
#include "imbrex/rules/bias_tensor.hpp"
#include "imbrex/rules/block_sparse.hpp"
#include "imbrex/rules/chunked.hpp"
#include "imbrex/rules/documents.hpp"
#include "imbrex/rules/lengths.hpp"
#include "imbrex/rules/mask_fn.hpp"
#include "imbrex/rules/mask_tensor.hpp"
#include "imbrex/rules/prefix.hpp"
#include "imbrex/rules/relative_bias.hpp"
#include "imbrex/rules/scaling.hpp"
#include "imbrex/rules/sink.hpp"
#include "imbrex/rules/softcap.hpp"
#include "imbrex/rules/transform_fn.hpp"
#include "imbrex/rules/tree.hpp"
#include "imbrex/rules/window.hpp"
