# Where xsimd's headers are. Used by the build and, installed beside imbrexConfig.cmake, by whoever finds the package.
include_guard()

# imbrex_find_xsimd(<result> [FETCH])
# Sets <result> to xsimd's include directories, or to nothing: those of a target xsimd that is already there, else of an installed
# package of version 8.1 or newer, else, with FETCH, of a pinned download.
#
# Decision: we take xsimd's include directories instead of linking its target. Debian's and Ubuntu's 8.1 package links a target xtl
# that it never defines, which ends as -lxtl on the command line and fails; xsimd has nothing else to link. No version is asked for,
# because xsimd's version file accepts no other major than that one.
function(imbrex_find_xsimd result)
    cmake_parse_arguments(PARSE_ARGV 1 arg "FETCH" "" "")
    set(directories "")
    if(TARGET xsimd)
        get_target_property(directories xsimd INTERFACE_INCLUDE_DIRECTORIES)
    else()
        find_package(xsimd CONFIG QUIET)
        if(TARGET xsimd AND xsimd_VERSION VERSION_GREATER_EQUAL 8.1)
            get_target_property(directories xsimd INTERFACE_INCLUDE_DIRECTORIES)
        elseif(arg_FETCH)
            include(FetchContent)
            FetchContent_Declare(xsimd
                GIT_REPOSITORY https://github.com/xtensor-stack/xsimd.git
                GIT_TAG e88a72831858123924f7118f345dfe5d70d95991 # 14.3.0
                SOURCE_SUBDIR headers_only) # no such folder: its CMakeLists.txt would set options like BUILD_TESTS for everyone
            FetchContent_MakeAvailable(xsimd)
            set(directories "${xsimd_SOURCE_DIR}/include")
        endif()
    endif()
    set(${result} "${directories}" PARENT_SCOPE)
endfunction()
