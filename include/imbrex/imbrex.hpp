// imbrex: fused, tiled, exact attention for CPUs. Everything but the opt-in headers (eigen.hpp, executors/).
#pragma once

#include "imbrex/attention.hpp"
