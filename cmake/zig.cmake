# SPDX-License-Identifier: MIT
# Toolchain file: zig as the C and C++ compiler, for this machine or another, with a glibc floor in the target's name.
#   -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DKW_ZIG=<zig, or "python -m ziglang"> -DKW_ZIG_TARGET=<triple>[.<glibc>]

set(KW_ZIG "zig" CACHE STRING "The zig program, or a command that runs it")
set(KW_ZIG_TARGET "" CACHE STRING "What to compile for, as zig spells it")
if(NOT KW_ZIG_TARGET)
  message(FATAL_ERROR "cmake/zig.cmake needs -DKW_ZIG_TARGET=<triple>.<glibc>; targets.toml has one for each target")
endif()

string(REGEX MATCH "^[^-]+" kw_zig_processor "${KW_ZIG_TARGET}")
if(NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL kw_zig_processor)
  set(CMAKE_SYSTEM_NAME Linux) # tells CMake that what is built does not run here
endif()
set(CMAKE_SYSTEM_PROCESSOR "${kw_zig_processor}")

# Trial builds only compile: linking one C++ program would make zig build its whole C++ library, which nothing here uses.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# CMake wants one program a tool; zig is one program with verbs. CMake's own trial builds read this file again, in
# another directory: they are given the first one's scripts.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KW_ZIG KW_ZIG_TARGET KW_ZIG_TOOLS)
if(NOT KW_ZIG_TOOLS)
  set(KW_ZIG_TOOLS "${CMAKE_BINARY_DIR}/zig")
  if(EXISTS "${KW_ZIG}")
    string(REPLACE "'" "'\\''" kw_zig_command "${KW_ZIG}") # a path may have one
    set(kw_zig_command "'${kw_zig_command}'")
  else()
    set(kw_zig_command "${KW_ZIG}")
  endif()
  foreach(tool cc c++ ar ranlib)
    set(kw_zig_target "")
    # Compiled as C++ but linked as C: `zig c++` would build its whole C++ library for the first link, even CMake's probe.
    if(tool STREQUAL "c++")
      set(kw_zig_verb "$(case \" $* \" in (*' -c '*) echo c++ ;; (*) echo cc ;; esac)")
    else()
      set(kw_zig_verb "${tool}")
    endif()
    if(tool MATCHES "^c")
      set(kw_zig_target " -target ${KW_ZIG_TARGET}")
    endif()
    set(script "${KW_ZIG_TOOLS}/${tool}")
    file(WRITE "${script}" "#!/bin/sh\nexec ${kw_zig_command} ${kw_zig_verb}${kw_zig_target} \"$@\"\n")
    file(CHMOD "${script}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endforeach()
endif()

set(CMAKE_C_COMPILER "${KW_ZIG_TOOLS}/cc")
set(CMAKE_CXX_COMPILER "${KW_ZIG_TOOLS}/c++")
set(CMAKE_AR "${KW_ZIG_TOOLS}/ar" CACHE FILEPATH "" FORCE)
set(CMAKE_RANLIB "${KW_ZIG_TOOLS}/ranlib" CACHE FILEPATH "" FORCE)
