#!/usr/bin/env bash
# Holds the headers to the layers: who includes whom, who may name an instruction set, and that each compiles alone.
#     layers_test.sh <project> <compiler> [<header to check>...]
set -euo pipefail
project=$(cd "$1" && pwd) compiler=$2
shift 2
root=$project/include/imbrex

# A header includes its own layer and lower ones. Files of a folder share their folder's layer.
layer_of() {
    case $1 in
    config.hpp | status.hpp | dtype.hpp | dtype_f8.hpp | encoding.hpp | products.hpp | view.hpp) echo 0 ;;
    mask.hpp | rule.hpp | precision.hpp | tile.hpp | tune.hpp | simd.hpp | simd/* | rows.hpp | cpu_features.hpp | tensor_facts.hpp | isa.hpp | executor.hpp | workspace.hpp | observer.hpp | options.hpp | sequences.hpp | kv_split.hpp | problem.hpp) echo 1 ;;
    rules/* | kv/*) echo 2 ;;
    units/*) echo 3 ;;
    kernel/*) echo 4 ;;
    plan.hpp | scale_checks.hpp | checks.hpp | work_order.hpp) echo 5 ;;
    attention.hpp | precision_of.hpp | checked_call.hpp | call.hpp | call_loop.hpp | kv_facts.hpp | backward.hpp | merge.hpp) echo 6 ;;
    imbrex.hpp) echo 7 ;;
    dispatch.hpp | compiled.hpp | eigen.hpp | mdspan.hpp | dlpack.hpp | guard.hpp | trace.hpp | executors/*) echo 8 ;;
    *) echo unknown ;;
    esac
}

# The three families that only kernel/ brings together.
family_of() {
    case $1 in
    rules/* | kv/* | units/*) echo "${1%%/*}" ;;
    *) echo none ;;
    esac
}

may_name_isa() {
    case $1 in
    config.hpp | isa.hpp | cpu_features.hpp | simd.hpp | simd/* | units/*) return 0 ;;
    *) return 1 ;;
    esac
}

may_use_intrinsics() {
    case $1 in
    cpu_features.hpp | simd.hpp | simd/* | units/*) return 0 ;;
    *) return 1 ;;
    esac
}

# Feature macros. Which processor it is (__x86_64__) may be asked elsewhere: it decides what a compiler can do, not what we compute.
isa_macro='__(AVX|SSE|SSSE|FMA__|F16C|AMX|ARM|BMI|GFNI)|XSIMD_WITH'
vendor_header='(immintrin|[a-z]+mmintrin|x86intrin|arm_neon|arm_sve|arm_acle|cpuid)\.h'

faults=0
fault() {
    echo "include/imbrex/$1"
    faults=$((faults + 1))
}

check_includes() {
    local header=$1 layer family number target
    layer=$(layer_of "$header")
    family=$(family_of "$header")
    if [ "$layer" = unknown ]; then
        fault "$header: is in no layer; give it one in design and in tests/layers_test.sh"
        return 0
    fi
    while IFS=: read -r number target; do
        if [ -z "$target" ]; then continue; fi
        local other other_family
        other=$(layer_of "$target")
        other_family=$(family_of "$target")
        if [ ! -e "$root/$target" ]; then
            fault "$header:$number: includes imbrex/$target, which does not exist"
        elif [ "$other" = unknown ] || [ "$other" -gt "$layer" ]; then
            fault "$header:$number: layer $layer includes $target of layer $other"
        elif [ "$family" != none ] && [ "$other_family" != none ] && [ "$family" != "$other_family" ]; then
            fault "$header:$number: $family/ includes $target; only kernel/ knows rules, kv and units together"
        fi
    done < <(sed -nE '/^[ \t]*#[ \t]*include/{s/^[^<"]*[<"]imbrex\/([^>"]*)[>"].*/\1/;t found;b;:found;=;p}' "$root/$header" |
        paste -d : - -)
}

check_lines() { # <header> <regex> <what is wrong>
    local number
    while IFS=: read -r number _; do
        if [ -n "$number" ]; then fault "$1:$number: $3"; fi
    done < <(grep -nE "$2" "$root/$1" || true)
}

check_text() {
    local header=$1
    if ! grep -q '^#pragma once$' "$root/$header"; then fault "$header: lacks #pragma once"; fi
    if [ "$header" != eigen.hpp ]; then
        check_lines "$header" '^[ \t]*#[ \t]*include[ \t]*[<"](Eigen|unsupported)/' 'includes Eigen; only eigen.hpp may'
    fi
    if ! may_use_intrinsics "$header"; then
        check_lines "$header" "#[ \t]*include[ \t]*[<\"]$vendor_header" 'includes vendor intrinsics; they belong in simd and units/'
        check_lines "$header" '(^|[^A-Za-z0-9_])_mm(256|512)?_[a-z]|(^|[^A-Za-z0-9_])v[a-z]+q?_[fsu](16|32|64)\(' \
            'calls a vendor intrinsic; they belong in simd and units/'
    fi
    if ! may_name_isa "$header"; then
        check_lines "$header" "^[ \t]*#[ \t]*(el)?if.*($isa_macro)" '#if on an instruction set; those belong in config, isa, simd and units/'
    fi
}

# Every test program and every compile-fail case is built by somebody.
check_lists_of_tests() {
    local file name
    while read -r file; do
        name=${file#"$project/tests/"}
        name=${name%_test.cpp}
        if ! grep -rqE "imbrex_add_test\($name[ )]" "$project/tests" --include=CMakeLists.txt; then
            echo "tests/${name}_test.cpp: no imbrex_add_test($name) builds it"
            faults=$((faults + 1))
        fi
    done < <(find "$project/tests" -name '*_test.cpp')
    while read -r name; do
        if ! grep -qxE " *$name\)?" "$project/tests/compile_fail/CMakeLists.txt"; then
            echo "tests/compile_fail/$name.cpp: its CMakeLists.txt does not list it"
            faults=$((faults + 1))
        fi
    done < <(find "$project/tests/compile_fail" -name '*.cpp' -printf '%f\n' | sed 's/\.cpp$//')
}

# What a header for one instruction set, or one language extension, compiles with; nothing for the others.
special_flags_of() {
    case $1 in
    */*avx512* | */*bf16*) echo "-march=x86-64-v4 -mavx512bf16 -mavx512vnni" ;;
    */*vnni* | */narrow_integer* | */integer_* | */group_*) echo "-march=x86-64-v4 -mavx512vnni" ;;
    */*amx*) echo "-march=sapphirerapids" ;;
    */*avx2*) echo "-march=x86-64-v3" ;;
    executors/openmp.hpp) echo "-fopenmp" ;;
    esac
}

# Not for this compiler: another processor's intrinsics, or a runtime library that is not installed.
is_foreign() {
    if [ "$1" = executors/openmp.hpp ]; then
        if echo '#include <omp.h>' | "$compiler" -fopenmp -x c++ -E - >/dev/null 2>&1; then return 1; else return 0; fi
    fi
    case $1:$("$compiler" -dumpmachine) in
    */*neon*:aarch64* | */*avx*:x86_64* | */*bf16*:x86_64* | */*vnni*:x86_64* | */narrow_integer*:x86_64* | */integer_*:x86_64* | */group_*:x86_64* | */*amx*:x86_64*) return 1 ;;
    */*neon* | */*avx* | */*bf16* | */*vnni* | */narrow_integer* | */integer_* | */group_* | */*amx*) return 0 ;;
    *) return 1 ;;
    esac
}

# Included twice, so that the include guard is tried too.
compile_alone() {
    local header=$1 source=$scratch/${1//\//_}.cpp special
    if is_foreign "$header"; then return 0; fi
    read -ra special <<<"$(special_flags_of "$header")"
    printf '#include <imbrex/%s>\n#include <imbrex/%s>\n' "$header" "$header" >"$source"
    if ! "$compiler" "${flags[@]}" "${special[@]}" -fsyntax-only "$source" >"$source.log" 2>&1; then
        {
            echo "include/imbrex/$header: does not compile alone"
            grep -m 3 'error' "$source.log" || head -n 12 "$source.log"
        } >"$source.failed"
    fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
flags=(-std=c++20 -I "$project/include" -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror)
for eigen in ${IMBREX_EIGEN_DIR:-} /usr/include/eigen3 /usr/local/include/eigen3; do
    if [ -e "$eigen/Eigen/Core" ]; then flags+=(-isystem "$eigen"); break; fi
done

cd "$root"
if [ $# -gt 0 ]; then headers=("$@"); else mapfile -t headers < <(find . -name '*.hpp' -printf '%P\n' | sort); fi
for header in "${headers[@]}"; do
    check_includes "$header"
    check_text "$header"
done
check_lists_of_tests

for header in "${headers[@]}"; do
    compile_alone "$header" &
    if [ "$(jobs -rp | wc -l)" -ge 2 ]; then wait -n; fi
done
wait
while read -r failed; do
    cat "$failed"
    faults=$((faults + 1))
done < <(find "$scratch" -name '*.failed' | sort)

if [ "$faults" -gt 0 ]; then echo "${#headers[@]} headers, $faults faults"; exit 1; fi
echo "${#headers[@]} headers keep to their layers and compile alone"
