# imbrex::compiled: common calls compiled beforehand (include/imbrex/compiled.hpp), for those who would rather not instantiate
# templates. Built where it is used, from imbrex_compiled.cpp: with the option IMBREX_COMPILED of add_subdirectory and FetchContent,
# or the component "compiled" of find_package.
include_guard()
include("${CMAKE_CURRENT_LIST_DIR}/imbrex_dispatch.cmake")

set(imbrex_compiled_source "${CMAKE_CURRENT_LIST_DIR}/imbrex_compiled.cpp" CACHE INTERNAL "")

# Defines imbrex::compiled. It is optimised in every configuration.
function(imbrex_define_compiled)
    set(IMBREX_COMPILED_ISAS x86-64-v2 x86-64-v3 x86-64-v4 avx512_bf16 amx CACHE STRING "Instruction sets of imbrex::compiled")
    set(IMBREX_COMPILED_FLAGS -O3 CACHE STRING "Flags of imbrex::compiled's kernels")
    mark_as_advanced(IMBREX_COMPILED_ISAS IMBREX_COMPILED_FLAGS)
    if(NOT TARGET imbrex::compiled)
        imbrex_add_dispatch(imbrex_compiled_kernels
            SOURCES "${imbrex_compiled_source}"
            ISAS ${IMBREX_COMPILED_ISAS}
            FLAGS ${IMBREX_COMPILED_FLAGS})
        target_sources(imbrex_compiled_kernels PRIVATE "${imbrex_compiled_source}") # the functions that choose
        add_library(imbrex::compiled ALIAS imbrex_compiled_kernels)
    endif()
endfunction()
