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

# It has no parts: whoever requires one means another package, or a later one.
foreach(kernelwright_PART IN LISTS kernelwright_FIND_COMPONENTS)
  if(kernelwright_FIND_REQUIRED_${kernelwright_PART})
    set(kernelwright_FOUND FALSE)
    set(kernelwright_NOT_FOUND_MESSAGE "kernelwright has no components, and ${kernelwright_PART} was asked for")
    return()
  endif()
endforeach()

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
