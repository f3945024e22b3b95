# SPDX-License-Identifier: MIT
# libkernelwright.so: csrc/core, csrc/torch, the host code of each family, and its CPU code compiled once for each instruction set.

# The instruction sets of a processor, and the compiler's flags for each; the plain one comes last and needs none.
# A file of csrc/ops/<family>/cpu sees its own as KW_ISA; csrc/cpu/runtime picks one at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(KW_ISAS avx512 avx2 scalar)
  set(KW_FLAGS_avx2 -mavx2 -mfma -mf16c)
  set(KW_FLAGS_avx512 ${KW_FLAGS_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(KW_ISAS neon)
else()
  message(FATAL_ERROR "kernelwright is for x86_64 and aarch64; this is ${CMAKE_SYSTEM_PROCESSOR}")
endif()

# Every op, by its public header.
file(GLOB kw_op_headers CONFIGURE_DEPENDS csrc/ops/*/api/*.h)
set(kw_ops "")
foreach(header IN LISTS kw_op_headers)
  get_filename_component(stem "${header}" NAME_WE)
  list(APPEND kw_ops "${stem}")
endforeach()

# Leaves out of a list of files those of an op that was not asked for.
function(kw_keep_ops files)
  if(KW_OP_LIST)
    set(kept "")
    foreach(file IN LISTS ${files})
      get_filename_component(stem "${file}" NAME_WE)
      string(REGEX REPLACE ".*/csrc/ops/([^/]+)/.*" "\\1" family "${file}")
      set(wanted FALSE) # what a family's operators share goes with any of them, and so does the one it is named after
      foreach(op IN LISTS KW_OP_LIST)
        if(EXISTS "${PROJECT_SOURCE_DIR}/csrc/ops/${family}/api/${op}.h")
          set(wanted TRUE)
        endif()
      endforeach()
      if(stem IN_LIST KW_OP_LIST OR (wanted AND (NOT stem IN_LIST kw_ops OR stem STREQUAL family)))
        list(APPEND kept "${file}")
      endif()
    endforeach()
    set(${files} "${kept}" PARENT_SCOPE)
  endif()
endfunction()

file(GLOB_RECURSE kw_host_sources CONFIGURE_DEPENDS csrc/core/*.cpp csrc/torch/*.cpp)
file(GLOB_RECURSE kw_launchers CONFIGURE_DEPENDS csrc/ops/*/host/*.cpp csrc/ops/*/torch/*.cpp)
file(GLOB kw_cpu_runtime CONFIGURE_DEPENDS csrc/cpu/runtime/*.cpp)
file(GLOB_RECURSE kw_cpu_ops CONFIGURE_DEPENDS csrc/ops/*/cpu/*.cpp)
kw_keep_ops(kw_launchers)
kw_keep_ops(kw_cpu_ops)

add_library(kernelwright SHARED ${kw_host_sources} ${kw_launchers} ${kw_cpu_runtime})
target_link_libraries(kernelwright PRIVATE kw_flags)
target_include_directories(kernelwright PRIVATE "${KW_PACKAGE}")
add_dependencies(kernelwright kw_device)

if(kw_cpu_ops)
  foreach(isa IN LISTS KW_ISAS)
    add_library(kw_cpu_${isa} OBJECT ${kw_cpu_ops})
    target_compile_definitions(kw_cpu_${isa} PRIVATE KW_ISA=${isa})
    target_compile_options(kw_cpu_${isa} PRIVATE ${KW_FLAGS_${isa}})
    target_link_libraries(kw_cpu_${isa} PRIVATE kw_flags)
    target_sources(kernelwright PRIVATE $<TARGET_OBJECTS:kw_cpu_${isa}>)
  endforeach()
endif()

set(kw_exports "${PROJECT_SOURCE_DIR}/cmake/exports.map")
set_target_properties(
  kernelwright
  PROPERTIES LINKER_LANGUAGE C
             LIBRARY_OUTPUT_DIRECTORY "${KW_PACKAGE}/lib"
             LINK_DEPENDS "${kw_exports}"
             SKIP_BUILD_RPATH TRUE
)
target_link_options(
  kernelwright
  PRIVATE
    "LINKER:--version-script=${kw_exports}"
    LINKER:-z,relro
    LINKER:-z,now
    LINKER:-z,nodelete # its threads and fork handlers outlive a dlclose
    LINKER:--as-needed
    LINKER:--build-id=none
)
if(NOT KW_SANITIZE) # a sanitizer's functions are in the program
  target_link_options(kernelwright PRIVATE LINKER:-z,defs)
  if(NOT KW_DEBUG)
    target_link_options(kernelwright PRIVATE -s)
  endif()
endif()

# The public headers beside the generated ones, for whoever uses the build tree.
file(GLOB kw_headers CONFIGURE_DEPENDS csrc/include/kernelwright/*.h csrc/include/kernelwright/*.hpp csrc/ops/*/api/*.h)
set(kw_copied "")
foreach(header IN LISTS kw_headers)
  get_filename_component(name "${header}" NAME)
  set(copy "${KW_PACKAGE}/include/kernelwright/${name}")
  add_custom_command(
    OUTPUT "${copy}"
    COMMAND "${CMAKE_COMMAND}" -E copy "${header}" "${copy}"
    DEPENDS "${header}"
    VERBATIM
  )
  list(APPEND kw_copied "${copy}")
endforeach()
add_custom_target(kw_headers ALL DEPENDS ${kw_copied})
