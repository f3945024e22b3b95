# SPDX-License-Identifier: MIT
# kw_flags: what every C++ file of ours is compiled with. C++17 without its library, no path of the build machine
# in the result, warnings are errors.

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON) # GNU forms of the C library: strdup, dladdr
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# The library is linked as C; without this CMake would add the C++ runtime for the C++ objects in it.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")

add_library(kw_flags INTERFACE)
target_compile_options(
  kw_flags
  INTERFACE
    -fno-exceptions
    -fasynchronous-unwind-tables # a refusal of an operator of torch's is thrown by torch, through kernels of ours
    -fno-rtti
    -fno-threadsafe-statics
    -fvisibility=hidden
    -fvisibility-inlines-hidden
    -Wall
    -Wextra
    -Wconversion
    -Wno-sign-conversion # clang counts it into -Wconversion, GCC does not for C++: one rule for both
    -Werror
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
    "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build"
)
# A write past an array on the stack ends the process; so does one by a function of the C library whose room is known.
target_compile_options(kw_flags INTERFACE -fstack-protector-strong)
if(NOT KW_SANITIZE AND CMAKE_BUILD_TYPE MATCHES "Rel") # glibc warns of it where nothing is optimized
  target_compile_options(kw_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2) # some GCCs define another by default
endif()
target_include_directories(
  kw_flags INTERFACE "${PROJECT_SOURCE_DIR}/csrc/include" "${PROJECT_SOURCE_DIR}/csrc"
)
# Named without looking: glibc has all three on every floor (empty ones since 2.34), and what is not used is dropped.
target_link_libraries(kw_flags INTERFACE pthread dl m)

if(KW_SANITIZE)
  string(REPLACE ";" "," kw_sanitize "${KW_SANITIZE}")
  target_compile_options(kw_flags INTERFACE "-fsanitize=${kw_sanitize}" -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(kw_flags INTERFACE "-fsanitize=${kw_sanitize}")
endif()
