#!/usr/bin/env bash
# Compiles one case of compile_fail/ and checks what comes of it.
#     run_case.sh fails|compiles <file> <compiler> <flag>...
set -euo pipefail
twin=$1 file=$2
shift 2

expect=$(sed -n '1s,^// expect: ,,p' "$file")
if [ -z "$expect" ]; then
    echo "$file: its first line must be '// expect: <regex>'"
    exit 1
fi
if ! grep -q '^#ifdef IMBREX_EXPECT_FAIL$\|^#ifndef IMBREX_EXPECT_FAIL$' "$file"; then
    echo "$file: has no #ifdef IMBREX_EXPECT_FAIL, so both twins would be the same"
    exit 1
fi

define=()
if [ "$twin" = fails ]; then define=(-DIMBREX_EXPECT_FAIL); fi
compiled=yes
output=$(LC_ALL=C "$@" "${define[@]}" -fsyntax-only "$file" 2>&1) || compiled=no

case $twin:$compiled in
compiles:yes) echo "compiles" ;;
compiles:no)
    echo "$output"
    echo "$file: the right use does not compile"
    exit 1
    ;;
fails:yes)
    echo "$file: compiles, but has to fail with: $expect"
    exit 1
    ;;
fails:no)
    # Only error lines count: the compiler also quotes source lines, where the sentence stands whether it fired or not.
    if ! grep 'error: ' <<<"$output" | grep -E -m 1 -- "$expect"; then
        echo "$output"
        echo "$file: no error line matches: $expect"
        exit 1
    fi
    ;;
esac
