#!/usr/bin/env bash
# Builds and runs a tiny project for each way to use the library. Prints "ok <way>" or "not ok <way>" for each.
#     run.sh [<way>...]     CXX names the compiler
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
imbrex=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CXX=${CXX:-g++}
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi

build() { # <way> <cmake argument>...
    local way=$1
    shift
    cmake -S "$here/$way" -B "$scratch/$way" -DCMAKE_BUILD_TYPE=Release "$@" && cmake --build "$scratch/$way" -j 2
}

use_add_subdirectory() {
    build add_subdirectory -DIMBREX_DIR="$imbrex" && "$scratch/add_subdirectory/consumer"
}

use_fetch_content() {
    build fetch_content -DIMBREX_DIR="$imbrex" && "$scratch/fetch_content/consumer"
}

install_package() {
    cmake -S "$imbrex" -B "$scratch/install" -DIMBREX_BUILD_TESTS=OFF -DIMBREX_BUILD_BENCH=OFF -DIMBREX_BUILD_EXAMPLES=OFF \
        -DCMAKE_INSTALL_PREFIX="$scratch/prefix" &&
        cmake --install "$scratch/install"
}

use_find_package() {
    install_package &&
        build find_package -DCMAKE_PREFIX_PATH="$scratch/prefix" &&
        "$scratch/find_package/consumer" && "$scratch/find_package/consumer_eigen" && unknown_component_is_told
}

unknown_component_is_told() {
    local told
    if told=$(cmake -S "$here/find_package" -B "$scratch/unknown" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DIMBREX_COMPONENT=eigne 2>&1); then
        return 1
    fi
    grep "no component 'eigne'; it has eigen and compiled" <<<"$told"
}

# Code for several instruction sets, of the installed package; of imbrex::compiled only the plainest, which takes long enough.
use_dispatch() {
    install_package &&
        build dispatch -DCMAKE_PREFIX_PATH="$scratch/prefix" -DIMBREX_COMPILED_ISAS=x86-64 -DIMBREX_COMPILED_FLAGS=-O1 &&
        "$scratch/dispatch/consumer_dispatch" && on_older_processors "$scratch/dispatch/consumer_dispatch" &&
        "$scratch/dispatch/consumer_compiled" && IMBREX_ISA=none "$scratch/dispatch/consumer_compiled" refused
}

# With the emulator, where it is installed, as processors that lack the second set, and that have no more than both.
on_older_processors() { # <program>
    if [ "$(uname -m)" != x86_64 ] || ! command -v qemu-x86_64 >/dev/null; then return 0; fi
    qemu-x86_64 -cpu Nehalem "$1" 1 && qemu-x86_64 -cpu Haswell "$1" 2
}

use_plain_include() {
    "$CXX" -std=c++20 -O2 -I "$imbrex/include" "$here/main.cpp" "$here/other.cpp" -o "$scratch/plain" && "$scratch/plain"
}

# Neither exceptions nor RTTI, and no warning with everything on that one may reasonably switch on.
use_without_exceptions_and_rtti() {
    "$CXX" -std=c++20 -O2 -fno-exceptions -fno-rtti -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I "$imbrex/include" \
        "$here/main.cpp" "$here/other.cpp" -o "$scratch/bare" && "$scratch/bare"
}

ways=("$@")
if [ $# -eq 0 ]; then ways=(add_subdirectory fetch_content find_package dispatch plain_include without_exceptions_and_rtti); fi
failed=0
for way in "${ways[@]}"; do
    if "use_$way" >"$scratch/log" 2>&1; then
        echo "ok $way"
    else
        cat "$scratch/log"
        echo "not ok $way"
        failed=1
    fi
done
exit "$failed"
