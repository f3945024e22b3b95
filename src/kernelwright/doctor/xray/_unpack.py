# SPDX-License-Identifier: MIT
"""Unpacks images of a fat binary, never more than is asked for."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from kernelwright.doctor.xray._view import Damaged


class CannotUnpack(Exception):
    """This Python has nothing that unpacks it."""


def lz4(data: bytes, most: int) -> bytes:
    """The first bytes of a raw LZ4 block, `most` at the most or a little more: pieces are not cut."""
    out, at = bytearray(), 0
    try:
        while at < len(data) and len(out) < most:
            token = data[at]
            at += 1
            literals, at = _length(data, at, token >> 4)
            if at + literals > len(data):
                raise Damaged(f"a packed image says {literals} more bytes, and has {len(data) - at}")
            out += data[at : at + literals]
            at += literals
            if at >= len(data):  # the last piece has no match
                break
            distance = data[at] | data[at + 1] << 8
            count, at = _length(data, at + 2, token & 15)
            count += 4
            if not 0 < distance <= len(out):
                raise Damaged(f"a packed image refers to {distance} bytes back, where {len(out)} are unpacked")
            # A match may overlap what it writes: then it repeats.
            piece = bytes(out[-distance:][:count])
            out += (piece * (min(count, most) // len(piece) + 1))[: min(count, most)]
    except IndexError:
        raise Damaged("a packed image is cut off") from None
    return bytes(out)


def _length(data: bytes, at: int, short: int) -> tuple[int, int]:
    """A length of four bits, with more bytes behind it where it is 15."""
    if short < 15:
        return short, at
    while True:
        more = data[at]
        at += 1
        short += more
        if more < 255:
            return short, at


def zstd(data: bytes, most: int) -> bytes:
    """The first bytes of a Zstandard frame; CannotUnpack where no module for it is installed."""
    try:
        return _zstd(data, most)
    except (CannotUnpack, Damaged):
        raise
    except Exception as error:  # noqa: BLE001 - each module has its own class
        raise Damaged(f"a packed image cannot be unpacked: {error}") from None


def _zstd(data: bytes, most: int) -> bytes:
    module = _module("compression.zstd")  # from Python 3.14 on
    if module is not None:
        return bytes(module.ZstdDecompressor().decompress(data, most))
    module = _module("zstandard")
    if module is None:
        raise CannotUnpack("pip install 'kernelwright[xray]' brings what unpacks Zstandard")
    with module.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
        return bytes(reader.read(most))


def whole(packing: str | None, data: bytes, size: int) -> bytes:
    """An image that is said to have this size, by a module in C where one is installed: that takes a hundredth."""
    module = _module("lz4.block") if packing == "lz4" and size > 0 else None
    if module is not None:
        with contextlib.suppress(module.LZ4BlockError):  # it says no more than that: what follows says what is wrong
            return bytes(module.decompress(data, uncompressed_size=size))
    return head(packing, data, size)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def head(packing: str | None, data: bytes, most: int) -> bytes:
    """The first `most` bytes of an image, however it is packed."""
    if packing is None:
        return data[:most]
    if packing == "unknown":
        raise CannotUnpack("it is packed in a way that is not known here")
    return (lz4 if packing == "lz4" else zstd)(data, most)[:most]
