#!/usr/bin/env bash
# Builds the fuzz targets with clang++'s libFuzzer, ASan and UBSan, and runs each from its kept corpus. New inputs go to
# build/fuzz; one that fails is kept there too, and its path printed.
#     run.sh [<seconds for each target>]     CXX names the compiler
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
cxx=${CXX:-clang++}
out=$PWD/build/fuzz
flags=(-std=c++20 -O1 -g1 -march=native -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
    -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror -I include -I tests)

for source in tests/fuzz/*.cpp; do
    target=$(basename "$source" .cpp)
    if [ "$target" = replay ]; then continue; fi
    mkdir -p "$out/$target.corpus"
    "$cxx" "${flags[@]}" "$source" -o "$out/$target"
    "$out/$target" "$out/$target.corpus" "tests/fuzz/corpus/$target" -max_total_time="$seconds" -max_len=160 -timeout=20 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$out/$target."
    echo "ok $target"
done
