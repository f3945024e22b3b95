# SPDX-License-Identifier: MIT
"""The public C ABI, read from its headers: the one place where a signature is written."""

from kernelwright_toolchain.abi.read import Abi, AbiError, Function, header_directories, read_headers
from kernelwright_toolchain.abi.write import signatures, umbrella

__all__ = ["Abi", "AbiError", "Function", "header_directories", "read_headers", "signatures", "umbrella"]
