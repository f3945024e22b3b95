# SPDX-License-Identifier: MIT
# Device images and everything that is generated with them: one run of `python -m toolchain device`. It leaves files
# alone whose bytes would be the same.

# With -I nothing is imported that only happens to lie somewhere; the tree is then named.
set(kw_start "${PROJECT_SOURCE_DIR}/toolchain/kernelwright_toolchain/start.py")
set(kw_device_command "${KW_PYTHON_COMMAND}" -I "${kw_start}" "${PROJECT_SOURCE_DIR}")
list(APPEND kw_device_command kernelwright_toolchain device --out "${KW_PACKAGE}")
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

# Always asked: it knows by content what each image is made from, and CMake knowing it too would be a second opinion.
# It writes only what changed, so that a build with nothing to do ends here.
add_custom_target(
  kw_device ALL
  COMMAND ${kw_device_command}
  BYPRODUCTS "${KW_PACKAGE}/kw_images.inc"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
  COMMENT "Compiling device images"
  USES_TERMINAL VERBATIM
)
