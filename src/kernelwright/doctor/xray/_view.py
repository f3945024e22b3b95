# SPDX-License-Identifier: MIT
"""A file's bytes, read with every offset and size checked: bad ones give Damaged and nothing else."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

LONGEST_NAME = 8192  # a mangled template name may be long; a longer one is an attack or damage


class Damaged(ValueError):
    """What a file says of itself cannot be so."""


class View:
    """A window on bytes in memory or in a mapped file; windows of windows share them."""

    def __init__(self, data: bytes | mmap.mmap, start: int = 0, size: int | None = None) -> None:
        self._data = data
        self.start = start
        self.size = len(data) - start if size is None else size

    def window(self, offset: int, size: int) -> View:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise Damaged(f"{size} bytes at {offset} lie outside the file, or the part of it that has {self.size}")
        return View(self._data, self.start + offset, size)

    def take(self, offset: int, size: int) -> bytes:
        part = self.window(offset, size)
        return bytes(self._data[part.start : part.start + size])

    def unpack(self, layout: str, offset: int) -> tuple[Any, ...]:
        return struct.unpack(layout, self.take(offset, struct.calcsize(layout)))

    def find(self, wanted: bytes, offset: int = 0) -> int:
        """The first place at or after `offset`; -1 if there is none."""
        found = self._data.find(wanted, self.start + offset, self.start + self.size)
        return found - self.start if found >= 0 else -1

    def search(self, literal: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        """Where `pattern` matches, which begins with `literal`: to look for that first is many times faster."""
        end = self.start + self.size
        at = self._data.find(literal, self.start, end)
        while at >= 0:
            found = pattern.match(self._data, at, end)
            if found:
                yield found
            at = self._data.find(literal, found.end() if found else at + 1, end)

    def text(self, offset: int) -> str:
        """The name that ends with a zero byte."""
        if not 0 <= offset < self.size:
            raise Damaged(f"a name at {offset} lies outside its table of {self.size} bytes")
        end = self._data.find(b"\0", self.start + offset, self.start + min(self.size, offset + LONGEST_NAME))
        if end < 0:
            raise Damaged(f"a name at {offset} has no end")
        return bytes(self._data[self.start + offset : end]).decode("utf-8", errors="backslashreplace")
