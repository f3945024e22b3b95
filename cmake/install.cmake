# SPDX-License-Identifier: MIT
# The package as docs/architecture.md draws it, below KW_INSTALL_DIR of whatever prefix. All paths are relative: the
# library finds its kernels, and the CMake package its library, from where they themselves lie.

configure_file(cmake/kernelwrightConfig.cmake "${KW_PACKAGE}/cmake/kernelwrightConfig.cmake" COPYONLY)
configure_file(
  cmake/kernelwrightConfigVersion.cmake.in "${KW_PACKAGE}/cmake/kernelwrightConfigVersion.cmake" @ONLY NEWLINE_STYLE UNIX
)

install(TARGETS kernelwright LIBRARY DESTINATION "${KW_INSTALL_DIR}/lib")
install(DIRECTORY "${KW_PACKAGE}/kernels" "${KW_PACKAGE}/include" "${KW_PACKAGE}/cmake" DESTINATION "${KW_INSTALL_DIR}")
install(
  FILES "${KW_PACKAGE}/manifest.json" "${KW_PACKAGE}/targets.json" "${KW_PACKAGE}/signatures.json"
  DESTINATION "${KW_INSTALL_DIR}"
)
