# SPDX-License-Identifier: MIT
"""One line for each finished image, as it finishes; on a terminal the one that runs is shown in place below."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from kernelwright_toolchain.device.image import Image


CACHED = "cached"  # ends the line of an image that was not compiled now


class Progress:
    """Counts images up to `total`; calls may come from several threads."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._done = 0
        self._running: list[str] = []
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        with self._lock:
            self._write(text)

    def started(self, what: str) -> None:
        with self._lock:
            self._running.append(what)
            self._write()

    def finished(self, image: Image, what: str = "") -> None:
        with self._lock:
            if what in self._running:
                self._running.remove(what)
            self._done += 1
            self._write(line(image, self._done, self.total))
            for warning in image.warnings:
                self._write(f"      {warning}")

    def close(self) -> None:
        with self._lock:
            self._running.clear()
            self._write()

    def _write(self, text: str | None = None) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
        if text is not None:
            self._stream.write(f"{text}\n")
        if self._terminal and self._running:
            self._stream.write(f"[{self._done}/{self.total}] compiling {', '.join(self._running)}"[:100])
        self._stream.flush()


def line(image: Image, count: int, total: int) -> str:
    """Count, code, op, seconds, registers, spills, and whether it was compiled or cached, in columns."""
    width = len(str(total))
    told = f"{image.registers:3d} registers  {image.spilled} spills" if image.spills else "as text for newer GPUs"
    how = CACHED if image.cached else "compiled"
    return f"[{count:{width}d}/{total}] {image.code:<10} {image.op:<16} {image.seconds:6.1f} s  {told}  {how}"
