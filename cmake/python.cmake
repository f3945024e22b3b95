# SPDX-License-Identifier: MIT
# KW_PYTHON_COMMAND: the interpreter that runs the toolchain (3.10 or newer; the toolchain says what else it lacks).

if(KW_PYTHON)
  set(KW_PYTHON_COMMAND "${KW_PYTHON}")
else()
  find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
  set(KW_PYTHON_COMMAND "${Python3_EXECUTABLE}")
endif()
