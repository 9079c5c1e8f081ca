// imbrex: fused, tiled, exact attention for CPUs. Everything but the opt-in headers (eigen.hpp, executors/).
#pragma once

#include "imbrex/attention.hpp"
#include "imbrex/rules/chunked.hpp"
#include "imbrex/rules/lengths.hpp"
#include "imbrex/rules/prefix.hpp"
#include "imbrex/rules/window.hpp"
