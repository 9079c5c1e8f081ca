#!/usr/bin/env bash
# Builds the demo and runs it on queries, keys and values captured from a real transformer. Installs what is missing where it may.
set -euo pipefail
cd "$(dirname "$0")/.."
source cmake/need.sh
need g++ cmake ninja-build libxsimd-dev libeigen3-dev

echo "building the demo ..." >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! {
    cmake -S . -B build/demo -DCMAKE_BUILD_TYPE=Release -DIMBREX_NATIVE=ON -DIMBREX_BUILD_TESTS=OFF -DIMBREX_BUILD_BENCH=OFF &&
        cmake --build build/demo --target imbrex_demo
} >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
build/demo/examples/imbrex_demo examples/data/*.bin "$@"
