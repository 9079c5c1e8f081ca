# Debian's and Ubuntu's cross compiler for 64-bit Arm (g++-aarch64-linux-gnu), with qemu-user to run what it builds.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;/usr/aarch64-linux-gnu")

# Libraries come only from the cross packages. Headers of libraries that have nothing else, xsimd and Eigen, are the host's: the
# compiler reads /usr/include behind its own folders, and CMake knows that and never names it on the command line.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# xsimd's package file lies in the host's library folder, where a cross build does not look.
file(GLOB imbrex_xsimd_package /usr/lib/*/cmake/xsimd /usr/share/cmake/xsimd)
if(imbrex_xsimd_package AND NOT DEFINED xsimd_DIR)
    list(GET imbrex_xsimd_package 0 xsimd_DIR)
    set(xsimd_DIR "${xsimd_DIR}" CACHE PATH "xsimd's package file")
endif()
