# SPDX-License-Identifier: MIT
# Toolchain file for zig as C and C++ compiler, native and cross alike:
#   -DKW_ZIG=<the zig program> -DKW_ZIG_TARGET=<machine>-linux-gnu.<glibc floor>
# zig brings the headers and the symbol versions of every glibc, so the floor is a property of the target, not of the
# machine that builds.

if(NOT KW_ZIG OR NOT KW_ZIG_TARGET)
  message(FATAL_ERROR "cmake/zig.cmake needs -DKW_ZIG=<zig> and -DKW_ZIG_TARGET=<machine>-linux-gnu.<glibc>")
endif()
# The compiler check is a project of its own, which reads this file again.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KW_ZIG KW_ZIG_TARGET)

string(REGEX REPLACE "-.*$" "" kw_machine "${KW_ZIG_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${kw_machine}")

set(CMAKE_C_COMPILER "${KW_ZIG}" cc)
# `cc` for C++ too: nothing here uses the C++ library, and `c++` would build the whole of it for the first link.
set(CMAKE_CXX_COMPILER "${KW_ZIG}" cc)
# The way to say it that CMake passes on to compiler and linker alike.
set(CMAKE_C_COMPILER_TARGET "${KW_ZIG_TARGET}")
set(CMAKE_CXX_COMPILER_TARGET "${KW_ZIG_TARGET}")

# Only what zig brings: nothing of the build machine is looked at.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
