#!/usr/bin/env bash
# Builds the benchmarks, runs them all, leaves their JSON in build/bench and prints the table of what must be shown.
#     bash bench/run.sh [<program>...]     of prefill cascade decode encodings kv small models rules threads avx2; all when none is named
# Six minutes on a quiet machine. Everything is measured beside the machine's own limits in the same run, but give it a quiet machine all
# the same. The picture: python3 bench/plot.py
set -euo pipefail
cd "$(dirname "$0")/.."
source cmake/need.sh
need g++ cmake ninja-build libxsimd-dev libeigen3-dev libbenchmark-dev

out=build/bench
programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then programs=(prefill cascade decode encodings kv small models rules threads avx2); fi

build() { # build <name> <target>... -- <cmake argument>...
    local name=$1 targets=()
    shift
    while [ "$1" != -- ]; do targets+=("$1"); shift; done
    shift
    cmake -S . -B "$out/$name" -DCMAKE_BUILD_TYPE=Release -DIMBREX_BUILD_TESTS=OFF -DIMBREX_BUILD_EXAMPLES=OFF "$@" >"$out/$name.log" 2>&1 &&
        cmake --build "$out/$name" --target "${targets[@]}" >>"$out/$name.log" 2>&1 || { cat "$out/$name.log" >&2; exit 1; }
}

run() { # run <build> <program> <json> <filter>
    echo "== $2 ($1)"
    "$out/$1/bench/$2" --benchmark_filter="$4" --benchmark_context=build="$1" --benchmark_out="$out/$3.json" --benchmark_out_format=json 2>/dev/null |
        sed -un 's|/iterations:1/manual_time||; s|^\([a-z_0-9]*/[^ ]* *[0-9.]* us\).*|\1|p; /ERROR/p'
}

# The same f32 cases with 256-bit vectors: at least as much as a machine without AVX-512 would show.
run_avx2() {
    if ! grep -qw avx2 /proc/cpuinfo || ! grep -qw fma /proc/cpuinfo; then
        echo "== avx2: not on this machine"
        return
    fi
    local filter='^prefill/f32/wide/(full|causal)/.*_Q(1024|2048)_.*_D(64|128)/bhsd'
    build avx2 imbrex_bench_prefill -- -DCMAKE_CXX_FLAGS=-march=x86-64-v3
    run avx2 prefill prefill_avx2 "$filter"
    if command -v clang++ >/dev/null; then
        build avx2-clang imbrex_bench_prefill -- -DCMAKE_CXX_FLAGS=-march=x86-64-v3 -DCMAKE_CXX_COMPILER=clang++
        run avx2-clang prefill prefill_avx2_clang "$filter"
    else
        echo "== avx2-clang: no clang++ here"
    fi
}

mkdir -p "$out"
for program in "${programs[@]}"; do
    case $program in
    prefill | cascade | decode | encodings | kv | small | models | rules | threads)
        build native "imbrex_bench_$program" -- -DIMBREX_NATIVE=ON
        run native "$program" "$program" '-^tiles'
        ;;
    avx2) run_avx2 ;;
    *)
        echo "unknown program $program; one of: prefill cascade decode encodings kv small models rules threads avx2" >&2
        exit 1
        ;;
    esac
done
python3 bench/table.py "$out"/*.json
