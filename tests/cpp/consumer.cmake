# SPDX-License-Identifier: MIT
# Installs the build, moves the installation, and builds and runs the consumer against it: cmake -P with
# BUILD, SOURCE, SCRATCH, GENERATOR, the compiler's settings in OPTIONS, and what runs another processor's programs.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGV}\n${said}")
  endif()
  message(STATUS "${said}")
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/prefix")
file(RENAME "${SCRATCH}/prefix" "${SCRATCH}/moved")
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${SCRATCH}/build" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${SCRATCH}/moved" ${OPTIONS})
run("${CMAKE_COMMAND}" --build "${SCRATCH}/build")
run(${EMULATOR} "${SCRATCH}/build/consumer")
