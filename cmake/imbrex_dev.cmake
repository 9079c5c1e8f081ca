# What our own tests, benchmarks and examples are compiled with. Nothing here reaches imbrex::imbrex or a parent project.
option(IMBREX_NATIVE "Compile imbrex's tests, benchmarks and examples for this machine's processor" OFF)
option(IMBREX_WERROR "Treat warnings in imbrex's tests, benchmarks and examples as errors" OFF)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)

if(NOT TARGET imbrex_dev_flags)
    add_library(imbrex_dev_flags INTERFACE)
    target_compile_options(imbrex_dev_flags INTERFACE
        -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
        # g++ 12 calls the don't-care operand of its own AVX-512 intrinsics uninitialized (GCC bug 105593).
        $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-uninitialized -Wno-maybe-uninitialized>
        $<$<BOOL:${IMBREX_WERROR}>:-Werror>
        $<$<BOOL:${IMBREX_NATIVE}>:-march=native>)
endif()

# Finds a package for our tests or benchmarks, else downloads the pinned commit of it.
# FETCHCONTENT_SOURCE_DIR_<NAME> names a local copy instead, CMAKE_DISABLE_FIND_PACKAGE_<package> skips the search.
function(imbrex_dev_package package target name repository commit)
    if(NOT TARGET ${target})
        find_package(${package} CONFIG QUIET)
    endif()
    if(NOT TARGET ${target})
        include(FetchContent)
        set(CMAKE_POLICY_DEFAULT_CMP0077 NEW) # let the plain variables below answer its options, and leave the cache alone
        set(INSTALL_GTEST OFF)
        set(BUILD_GMOCK OFF)
        set(BENCHMARK_ENABLE_TESTING OFF)
        set(BENCHMARK_ENABLE_INSTALL OFF)
        FetchContent_Declare(${name} GIT_REPOSITORY ${repository} GIT_TAG ${commit})
        FetchContent_MakeAvailable(${name})
    endif()
endfunction()
