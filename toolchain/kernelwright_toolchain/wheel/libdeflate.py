# SPDX-License-Identifier: MIT
"""libdeflate as a shared library: conda's and Nix's lock have it without Python's module of it."""

from __future__ import annotations

import ctypes
from pathlib import Path

from kernelwright_toolchain.errors import GateError, ToolMissing


class Libdeflate:
    """The library at this path; its release decides the bytes, so the path is that of a locked environment."""

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ToolMissing(f"wheels are packed by libdeflate, and {path} cannot be loaded: {error}") from None
        self._library.libdeflate_alloc_compressor.restype = ctypes.c_void_p
        for name in ("libdeflate_deflate_compress", "libdeflate_deflate_compress_bound"):
            getattr(self._library, name).restype = ctypes.c_size_t

    def compress(self, data: bytes, level: int) -> bytes:
        """A raw deflate stream of the data."""
        library = self._library
        compressor = ctypes.c_void_p(library.libdeflate_alloc_compressor(ctypes.c_int(level)))
        if not compressor:
            raise GateError(f"libdeflate has no level {level}, or no memory")
        try:
            size = ctypes.c_size_t(len(data))
            room = library.libdeflate_deflate_compress_bound(compressor, size)
            packed = ctypes.create_string_buffer(room)
            length = library.libdeflate_deflate_compress(compressor, data, size, packed, ctypes.c_size_t(room))
        finally:
            library.libdeflate_free_compressor(compressor)
        if not length:
            raise GateError(f"libdeflate could not pack {len(data)} bytes into the {room} it asked for")
        return packed.raw[:length]
