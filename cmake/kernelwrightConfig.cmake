# SPDX-License-Identifier: MIT
# find_package(kernelwright): the target kernelwright::kernelwright, wherever this package lies (an install prefix,
# a build tree, site-packages). `python -m kernelwright` prints the directory to give as kernelwright_DIR.

get_filename_component(kernelwright_ROOT_DIR "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

if(NOT EXISTS "${kernelwright_ROOT_DIR}/lib/libkernelwright.so")
  set(kernelwright_FOUND FALSE)
  set(kernelwright_NOT_FOUND_MESSAGE
      "${kernelwright_ROOT_DIR}/lib/libkernelwright.so is not there: build or reinstall kernelwright"
  )
  return()
endif()

if(NOT TARGET kernelwright::kernelwright)
  add_library(kernelwright::kernelwright SHARED IMPORTED)
  set_target_properties(
    kernelwright::kernelwright
    PROPERTIES IMPORTED_LOCATION "${kernelwright_ROOT_DIR}/lib/libkernelwright.so"
               IMPORTED_SONAME "libkernelwright.so"
               INTERFACE_INCLUDE_DIRECTORIES "${kernelwright_ROOT_DIR}/include"
  )
endif()
set(kernelwright_FOUND TRUE)
