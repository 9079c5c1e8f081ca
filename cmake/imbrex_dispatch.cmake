# The same source compiled once for each of several instruction sets, in one binary that chooses at run time
# (include/imbrex/dispatch.hpp).
include_guard()

# imbrex_add_dispatch(<name> SOURCES <file>... [ISAS <set>...] [FLAGS <flag>...] [LINK_LIBRARIES <target>...]
#                     [COMPILE_DEFINITIONS <definition>...])
# Defines <name>, a static library with the object of each set, where <name> is also the name of the table that the sources give
# to IMBREX_DISPATCH_TABLE(). FLAGS are further ones, for every set; no -march or -m among them.
#
# Sets, of which those of another processor than the target's are left out, and which are put in this order: x86-64, x86-64-v2,
# x86-64-v3, x86-64-v4, avx512_vnni, avx512_bf16, amx; neon64. Without ISAS: x86-64-v2, x86-64-v3, x86-64-v4, avx512_bf16, amx.
# 64-bit Arm has neon64 alone, named or not.
#
# An object exports its table's function and nothing else, and has nothing that runs before main: the build fails otherwise
# (imbrex_isa_object.cmake). For a shared library, set CMAKE_POSITION_INDEPENDENT_CODE before. ELF and GNU binutils only.
function(imbrex_add_dispatch name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ISAS;FLAGS;LINK_LIBRARIES;COMPILE_DEFINITIONS")
    if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "imbrex_add_dispatch(${name}): SOURCES are needed, and '${arg_UNPARSED_ARGUMENTS}' was not understood")
    endif()
    if(NOT name MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
        message(FATAL_ERROR "imbrex_add_dispatch(${name}): the name is also that of a C++ type; it cannot have other characters")
    endif()
    imbrex_dispatch_sets(${name} "${arg_ISAS}" sets)

    set(declarations "")
    set(rows "")
    add_library(${name} STATIC)
    target_link_libraries(${name} PUBLIC imbrex::imbrex)
    foreach(set IN LISTS sets)
        imbrex_dispatch_flags(${set} flags)
        string(REPLACE "-" "_" id "${set}")
        set(entry "imbrex_dispatch_${name}_${id}")
        imbrex_add_isa_object(${name}_${id}
            SOURCES ${arg_SOURCES}
            FLAGS ${arg_FLAGS} ${flags}
            KEEP ${entry}
            LINK_LIBRARIES ${arg_LINK_LIBRARIES}
            COMPILE_DEFINITIONS IMBREX_DISPATCH_SET=${id} ${arg_COMPILE_DEFINITIONS})
        get_target_property(object ${name}_${id} IMBREX_ISA_OBJECT)
        set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
        target_sources(${name} PRIVATE "${object}")
        add_dependencies(${name} ${name}_${id}_object)
        set_property(TARGET ${name} APPEND PROPERTY IMBREX_DISPATCH_TARGETS ${name}_${id})
        string(APPEND declarations "void const* ${entry}() noexcept;\n")
        string(APPEND rows "        {imbrex::instruction_set::${id}, ${entry}},\n")
    endforeach()

    set(list "${CMAKE_CURRENT_BINARY_DIR}/${name}_variants.cpp")
    file(CONFIGURE OUTPUT "${list}" @ONLY CONTENT
"// Made by imbrex_add_dispatch(${name}): what this binary has code for, from the plainest to the best.
#include <imbrex/dispatch.hpp>
extern \"C\" {
${declarations}imbrex::dispatch::variant_list imbrex_dispatch_${name}() noexcept;
imbrex::dispatch::variant_list imbrex_dispatch_${name}() noexcept {
    static constexpr imbrex::dispatch::variant variants[] = {
${rows}    };
    return {variants, sizeof variants / sizeof *variants};
}
}
")
    target_sources(${name} PRIVATE "${list}")
endfunction()

# Sets <result> to those of the wanted sets that the target processor may run, in the order of imbrex::instruction_set.
function(imbrex_dispatch_sets name wanted result)
    set(known x86-64 x86-64-v2 x86-64-v3 x86-64-v4 avx512_vnni avx512_bf16 amx neon64)
    foreach(set IN LISTS wanted)
        if(NOT set IN_LIST known)
            message(FATAL_ERROR "imbrex_add_dispatch(${name}): no instruction set is called '${set}'; there are ${known}")
        endif()
    endforeach()
    if(NOT wanted)
        set(wanted x86-64-v2 x86-64-v3 x86-64-v4 avx512_bf16 amx)
    endif()
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
        set(sets neon64)
    else()
        list(REMOVE_ITEM wanted neon64)
        set(sets "")
        foreach(set IN LISTS known)
            if(set IN_LIST wanted)
                list(APPEND sets ${set})
            endif()
        endforeach()
    endif()
    if(NOT sets)
        message(FATAL_ERROR "imbrex_add_dispatch(${name}): none of '${wanted}' is an instruction set of ${CMAKE_SYSTEM_PROCESSOR}")
    endif()
    set(${result} ${sets} PARENT_SCOPE)
endfunction()

# What each set is compiled with; imbrex/cpu_features.hpp has what it needs at run time.
function(imbrex_dispatch_flags set result)
    set(avx512_vnni -march=x86-64-v4 -mavx512vnni)
    set(avx512_bf16 ${avx512_vnni} -mavx512bf16 -mavx512vbmi)
    set(amx ${avx512_bf16} -mamx-tile -mamx-bf16 -mamx-int8)
    if(set MATCHES "^x86-64")
        set(${result} -march=${set} PARENT_SCOPE)
    elseif(set STREQUAL "neon64")
        set(${result} "" PARENT_SCOPE)
    else()
        set(${result} ${${set}} PARENT_SCOPE)
    endif()
endfunction()
