#!/usr/bin/env bash
# Builds the native suite (release, for this machine's processor) and runs it. Installs what is missing where it may.
#     bash tests/run.sh [<ctest argument>...]     e.g. -R Attention
set -euo pipefail
cd "$(dirname "$0")/.."
source cmake/need.sh
need g++ cmake ninja-build libxsimd-dev libeigen3-dev libgtest-dev

cmake --preset release -DIMBREX_BUILD_BENCH=OFF -DIMBREX_BUILD_EXAMPLES=OFF
cmake --build --preset release -j "${IMBREX_JOBS:-$(nproc)}"
ctest --preset release -j "${IMBREX_JOBS:-$(nproc)}" "$@"
