# Install rules: the headers, and a CMake package that find_package(imbrex [COMPONENTS eigen compiled]) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(imbrex_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/imbrex") # share/: nothing in it depends on the processor

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/imbrex" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
install(TARGETS imbrex EXPORT imbrex_targets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT imbrex_targets FILE imbrexTargets.cmake NAMESPACE imbrex:: DESTINATION "${imbrex_package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/imbrexConfig.cmake.in" "${PROJECT_BINARY_DIR}/imbrexConfig.cmake"
    INSTALL_DESTINATION "${imbrex_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/imbrexConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT) # before 1.0 a minor version may change the API
install(FILES
    "${PROJECT_BINARY_DIR}/imbrexConfig.cmake"
    "${PROJECT_BINARY_DIR}/imbrexConfigVersion.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/imbrex_xsimd.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/imbrex_isa_object.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/imbrex_dispatch.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/imbrex_check_isa_object.sh"
    "${PROJECT_SOURCE_DIR}/cmake/imbrex_compiled.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/imbrex_compiled.cpp"
    DESTINATION "${imbrex_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/imbrex")
