# One binary with code for several instruction sets, without one set's inline functions standing in for another's.
#
# A linker keeps one copy of each inline function. imbrex tags its own by instruction set, but std's and xsimd's have the same name in
# every object, so a program could end up running an AVX-512 std::max on a machine without AVX-512. Hence an ISA object is linked
# alone first (ld -r), its COMDAT groups are dissolved into plain sections, and every symbol but the named entry points becomes local.
include_guard()

set(imbrex_isa_object_dir "${CMAKE_CURRENT_LIST_DIR}" CACHE INTERNAL "")

# imbrex_add_isa_object(<name> SOURCES <file>... FLAGS <flag>... KEEP <wildcard>... [LINK_LIBRARIES <target>...]
#                       [COMPILE_DEFINITIONS <definition>...])
# Compiles SOURCES with FLAGS and defines the target <name>; whatever links to it gets one object that exports only the symbols, by
# their mangled names, that a KEEP wildcard matches. The build fails if anything else were still visible, or if the object had code
# that runs before main, before anybody could ask for the processor. Sanitizers do not see into it. ELF and GNU binutils only.
function(imbrex_add_isa_object name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;FLAGS;KEEP;LINK_LIBRARIES;COMPILE_DEFINITIONS")
    if(NOT arg_SOURCES OR NOT arg_KEEP OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "imbrex_add_isa_object(${name}): SOURCES and KEEP are needed, and ${arg_UNPARSED_ARGUMENTS} was not understood")
    endif()

    # GNU's by name: with clang++ CMake's own choice is LLVM's, whose linker cannot dissolve groups.
    foreach(tool IN ITEMS ld objcopy nm readelf)
        string(TOUPPER "IMBREX_${tool}" variable)
        set(names "${CMAKE_LIBRARY_ARCHITECTURE}-${tool}" ${tool})
        if(tool STREQUAL "ld")
            list(PREPEND names "${CMAKE_LIBRARY_ARCHITECTURE}-ld.bfd" ld.bfd)
        endif()
        find_program(${variable} NAMES ${names} DOC "GNU binutils' ${tool}" REQUIRED)
        mark_as_advanced(${variable})
    endforeach()

    set(parts "${name}_parts")
    add_library(${parts} OBJECT ${arg_SOURCES})
    target_link_libraries(${parts} PRIVATE imbrex::imbrex ${arg_LINK_LIBRARIES})
    target_compile_definitions(${parts} PRIVATE ${arg_COMPILE_DEFINITIONS})
    # g++ marks inline statics STB_GNU_UNIQUE, which binds across shared objects too; with LTO there would be no code to localise yet;
    # sanitizers bring weak symbols of their own and code that runs before main.
    target_compile_options(${parts} PRIVATE ${arg_FLAGS} -fno-lto -fno-sanitize=all $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
    set_target_properties(${parts} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)

    set(joined "${CMAKE_CURRENT_BINARY_DIR}/${name}_joined.o")
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
    list(TRANSFORM arg_KEEP PREPEND "--keep-global-symbol=" OUTPUT_VARIABLE keep_options)
    add_custom_command(OUTPUT "${object}" BYPRODUCTS "${joined}"
        COMMAND "${IMBREX_LD}" -r --force-group-allocation -o "${joined}" "$<TARGET_OBJECTS:${parts}>"
        COMMAND "${IMBREX_OBJCOPY}" --wildcard ${keep_options} "${joined}" "${object}"
        COMMAND bash "${imbrex_isa_object_dir}/imbrex_check_isa_object.sh"
            "${IMBREX_NM}" "${IMBREX_READELF}" "${object}" ${arg_KEEP}
        DEPENDS ${parts} "$<TARGET_OBJECTS:${parts}>"
        COMMAND_EXPAND_LISTS VERBATIM
        COMMENT "Localising the symbols of ${name}")
    add_custom_target(${name}_object DEPENDS "${object}")

    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE "${object}")
    add_dependencies(${name} ${name}_object)
    # For tests: the object as it is linked, and before its symbols were made local.
    set_target_properties(${name} PROPERTIES IMBREX_ISA_OBJECT "${object}" IMBREX_ISA_JOINED "${joined}" IMBREX_ISA_KEEP "${arg_KEEP}")
endfunction()
