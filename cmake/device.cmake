# SPDX-License-Identifier: MIT
# Device images and everything that is generated with them: one run of `python -m toolchain device`, whenever a file
# that it reads has changed. It leaves files alone whose bytes would be the same.

file(GLOB kw_device_sources CONFIGURE_DEPENDS csrc/cuda/*.cu csrc/cuda/include/* csrc/include/kernelwright/*.h)
file(GLOB_RECURSE kw_toolchain CONFIGURE_DEPENDS toolchain/*.py)

# With -I nothing is imported that only happens to lie somewhere; the tree is then named.
set(kw_device_command "${KW_PYTHON_COMMAND}" -I "${PROJECT_SOURCE_DIR}/toolchain/start.py" "${PROJECT_SOURCE_DIR}")
list(APPEND kw_device_command toolchain device --out "${KW_PACKAGE}")
list(APPEND kw_device_command --provider "${KW_PROVIDER}")
foreach(option TARGET TOOLKIT ARCHS OPS LABEL)
  if(KW_${option})
    string(TOLOWER "${option}" name)
    string(REPLACE ";" "," value "${KW_${option}}") # a list would become several arguments
    list(APPEND kw_device_command "--${name}" "${value}")
  endif()
endforeach()
if(KW_DEBUG)
  list(APPEND kw_device_command --debug)
endif()
if(KW_JOBS)
  list(APPEND kw_device_command -j "${KW_JOBS}")
endif()

# A file that is gone makes nothing newer; the list of those that are here does.
list(JOIN kw_device_sources "\n" kw_device_list)
set(kw_device_names "${PROJECT_BINARY_DIR}/device-sources.txt")
file(CONFIGURE OUTPUT "${kw_device_names}" CONTENT "${kw_device_list}\n" @ONLY)

set(kw_device_stamp "${PROJECT_BINARY_DIR}/device.stamp")
add_custom_command(
  OUTPUT "${kw_device_stamp}"
  BYPRODUCTS "${KW_PACKAGE}/kw_images.inc"
  COMMAND ${kw_device_command}
  COMMAND "${CMAKE_COMMAND}" -E touch "${kw_device_stamp}"
  DEPENDS ${kw_device_sources} ${kw_toolchain} "${kw_device_names}" targets.toml pyproject.toml
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
  COMMENT "Compiling device images"
  USES_TERMINAL VERBATIM
)
add_custom_target(kw_device ALL DEPENDS "${kw_device_stamp}")
