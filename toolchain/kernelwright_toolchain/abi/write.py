# SPDX-License-Identifier: MIT
"""signatures.json, which Python binds from, and kernelwright.h, which includes all the headers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelwright_toolchain.abi.read import Abi

SCHEMA = 1


def signatures(abi: Abi) -> bytes:
    """Every function with its argument names and types, every constant, every struct; all in the headers' order."""
    functions = {
        function.name: {
            "header": function.header,
            "returns": function.returns,
            "arguments": [list(argument) for argument in function.arguments],
        }
        for function in abi.functions.values()
    }
    table = {"schema": SCHEMA, "functions": functions, "constants": abi.constants, "structs": abi.structs}
    return (json.dumps(table, indent=2) + "\n").encode()


def umbrella(abi: Abi) -> bytes:
    """kernelwright.h."""
    lines = [
        "/* SPDX-License-Identifier: MIT */",
        "/* All of kernelwright's C ABI. Made by `python -m toolchain device` from the headers beside it. */",
        "#ifndef KERNELWRIGHT_KERNELWRIGHT_H",
        "#define KERNELWRIGHT_KERNELWRIGHT_H",
        "",
        *(f"#include <kernelwright/{header}>" for header in abi.headers),
        "",
        "#endif",
    ]
    return ("\n".join(lines) + "\n").encode()
