# shellcheck shell=bash
# Sourced by our scripts:  need <Debian package>...
# makes sure that what the packages bring is there. As root on Debian or Ubuntu it installs what is missing; elsewhere it says which
# command would, and exits. Says nothing when nothing is missing. Also picks a compiler that is new enough, into CXX.

need_header() { # does the compiler find it?
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "${CXX:-g++}" -x c++ -E - >/dev/null 2>&1
}

need_present() {
    case $1 in
    cmake) command -v cmake ctest >/dev/null ;;
    ninja-build) command -v ninja >/dev/null || command -v make >/dev/null ;;
    g++ | g++-12) need_compiler ;;
    libxsimd-dev) need_header xsimd/xsimd.hpp ;;
    libeigen3-dev) [ -e /usr/include/eigen3/Eigen/Core ] || [ -e /usr/local/include/eigen3/Eigen/Core ] ;;
    libgtest-dev) need_header gtest/gtest.h ;;
    libbenchmark-dev) need_header benchmark/benchmark.h ;;
    googletest) [ -e /usr/src/googletest/CMakeLists.txt ] ;;
    clang | clang-[0-9]*) command -v "clang++${1#clang}" >/dev/null ;;
    g++-aarch64-linux-gnu) command -v aarch64-linux-gnu-g++ >/dev/null ;;
    qemu-user) command -v qemu-aarch64 >/dev/null ;;
    *) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
    esac
}

# The C++ compiler: CXX if it is set, else g++, else a newer g++ beside it, at least version 12.
need_compiler() {
    if [ -n "${CXX:-}" ]; then return 0; fi
    local candidate
    for candidate in g++ g++-15 g++-14 g++-13 g++-12; do
        if command -v "$candidate" >/dev/null && [ "$("$candidate" -dumpversion | cut -d. -f1)" -ge 12 ]; then
            export CXX=$candidate
            return 0
        fi
    done
    return 1
}

need_install() {
    export DEBIAN_FRONTEND=noninteractive
    local log
    log=$(mktemp)
    # The second try has fresh package lists, which a new machine or container lacks.
    if apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
    elif { apt-get update && apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
        rm -f "$log"
    else
        tail -n 20 "$log" >&2
        rm -f "$log"
        return 1
    fi
}

need() {
    local package missing=()
    for package in "$@"; do
        if ! need_present "$package"; then missing+=("$package"); fi
    done
    if [ ${#missing[@]} -gt 0 ]; then
        # A distribution whose g++ is too old may have a newer one under its own name.
        if [[ " ${missing[*]} " == *" g++ "* ]] && command -v g++ >/dev/null; then missing=("${missing[@]/#g++/g++-12}"); fi
        if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
            echo "imbrex needs these Debian or Ubuntu packages, or what they bring: ${missing[*]}" >&2
            echo "    sudo apt-get install ${missing[*]}" >&2
            exit 1
        fi
        echo "installing ${missing[*]}" >&2
        need_install "${missing[@]}" || exit 1
    fi
    need_compiler || { echo "imbrex needs g++ 12 or newer, or clang++ 14 or newer; name it in CXX" >&2; exit 1; }
    if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi
}
