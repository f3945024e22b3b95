# SPDX-License-Identifier: MIT
"""The verb `run`: runs a command as it is, and where that fails explains what it printed, on this machine."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = """usage: python -m kernelwright run [--] COMMAND [ARGUMENT …]

Runs the command, passing on what it prints; where it fails, what `explain --here` says of it follows on stderr.
The exit code is the command's own; 127 where there is no such command, 128 and the number where a signal ended it."""

FIRST, LAST = 200_000, 2_000_000
"""Bytes of the output that are kept: its beginning tells of the system, its end of the failure."""
_CHUNK = 1 << 16


class Kept:
    """The beginning and the end of what goes by, however long that is."""

    def __init__(self) -> None:
        self._begin, self._end = bytearray(), bytearray()
        self._dropped = False

    def add(self, part: bytes) -> None:
        room = FIRST - len(self._begin)
        self._begin += part[:room]
        self._end += part[room:] if room < len(part) else b""
        if len(self._end) > 2 * LAST:
            del self._end[:-LAST]
            self._dropped = True

    def text(self) -> str:
        end = self._end[-LAST:]
        cut = b"\n" if self._dropped or len(end) < len(self._end) else b""
        return (bytes(self._begin) + cut + bytes(end)).decode("utf-8", errors="replace")


def _pass_on(process: subprocess.Popen[bytes], kept: Kept) -> None:
    """Both streams go on as they come, each to its own; the log has them in the order of arrival."""
    with selectors.DefaultSelector() as waiting:
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if source is not None and not source.closed:
                waiting.register(source, selectors.EVENT_READ, target.buffer)
        while waiting.get_map():
            for key, _ in waiting.select():
                part = os.read(key.fd, _CHUNK)
                if not part:
                    waiting.unregister(key.fileobj)
                    continue
                kept.add(part)
                key.data.write(part)
                key.data.flush()


def _ended(process: subprocess.Popen[bytes], kept: Kept) -> int:
    """Waits to the end: an interrupt from the terminal goes to the command too, which decides what becomes of it."""
    while True:
        try:
            _pass_on(process, kept)
            return process.wait()
        except KeyboardInterrupt:
            continue


def main(arguments: Sequence[str]) -> int:
    from kernelwright.doctor.explain.here import print_here

    if not arguments or arguments[0] in {"-h", "--help"}:
        print(USAGE)
        return 0 if arguments else 2
    command = list(arguments[1:] if arguments[0] == "--" else arguments)
    if not command:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        print(f"run cannot start {command[0]}: {error.strerror or error}", file=sys.stderr)
        return 127
    kept = Kept()
    code = _ended(process, kept)
    if code:
        print(file=sys.stderr)
        print_here(kept.text(), file=sys.stderr)
    return 128 - code if code < 0 else code
