# SPDX-License-Identifier: MIT
# recipe.json: what the host library is compiled and linked with, as CMake settled it. scikit-build-core's install hands
# it to the packer, which puts it into the wheel's statement; an install by CMake alone has no use for it, nor for the
# other file here.

if(DEFINED SKBUILD)
  # One JSON list of strings, paths of this machine made relative; the map that does so for the compiler left out.
  function(kw_json_list result)
    set(items ${ARGN})
    list(FILTER items EXCLUDE REGEX "^-ffile-prefix-map=|^$")
    string(REPLACE "${PROJECT_BINARY_DIR}" "build" items "${items}")
    string(REPLACE "${PROJECT_SOURCE_DIR}" "." items "${items}")
    if(NOT items)
      set(${result} "[]" PARENT_SCOPE)
      return()
    endif()
    list(TRANSFORM items REPLACE "([\"\\\\])" "\\\\\\1")
    list(JOIN items "\", \"" joined)
    set(${result} "[\"${joined}\"]" PARENT_SCOPE)
  endfunction()

  string(TOUPPER "${CMAKE_BUILD_TYPE}" kw_type)
  separate_arguments(kw_options UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${kw_type}}")
  get_target_property(kw_own kw_flags INTERFACE_COMPILE_OPTIONS)
  list(APPEND kw_options "-std=gnu++${CMAKE_CXX_STANDARD}" -fPIC ${kw_own})
  get_target_property(kw_links kernelwright LINK_OPTIONS)
  kw_json_list(kw_compile ${kw_options})
  separate_arguments(kw_more UNIX_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
  kw_json_list(kw_link ${kw_more} ${kw_links})
  set(kw_sets "")
  foreach(isa IN LISTS KW_ISAS)
    kw_json_list(kw_set ${KW_FLAGS_${isa}})
    list(APPEND kw_sets "\"${isa}\": ${kw_set}")
  endforeach()
  list(JOIN kw_sets ", " kw_sets)
  file(
    WRITE "${PROJECT_BINARY_DIR}/recipe.json"
    "{\"front\": \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\", \"compile\": ${kw_compile}, "
    "\"sets\": {${kw_sets}}, \"link\": ${kw_link}}\n"
  )
  install(FILES "${PROJECT_BINARY_DIR}/recipe.json" DESTINATION "${KW_INSTALL_DIR}")

  # objects.json: how much of the library each source makes, by which the packer tells what a family takes of the wheel.
  set(kw_objects "$<TARGET_OBJECTS:kernelwright>")
  if(kw_cpu_ops)
    foreach(isa IN LISTS KW_ISAS)
      list(APPEND kw_objects "$<TARGET_OBJECTS:kw_cpu_${isa}>")
    endforeach()
  endif()
  set(kw_object_list "${PROJECT_BINARY_DIR}/objects.txt")
  set(kw_object_sizes "${PROJECT_BINARY_DIR}/objects.json")
  file(GENERATE OUTPUT "${kw_object_list}" CONTENT "$<JOIN:${kw_objects},\n>\n")
  add_custom_command(
    TARGET kernelwright POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -E env --unset=PYTHONSAFEPATH -- "${KW_PYTHON_COMMAND}" -m toolchain objects
            --list "${kw_object_list}" --out "${kw_object_sizes}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    VERBATIM
  )
  install(FILES "${kw_object_sizes}" DESTINATION "${KW_INSTALL_DIR}")
endif()
