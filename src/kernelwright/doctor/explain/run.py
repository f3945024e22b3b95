# SPDX-License-Identifier: MIT
"""The verb `run`: runs a command as it is, and where that fails explains what it printed, on this machine."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = """usage: python -m kernelwright run [--] COMMAND [ARGUMENT …]

Runs the command, passing on what it prints; where it fails, what `explain --here` says of it follows on stderr.
The exit code is the command's own; 127 where there is no such command, 126 where it may not be executed, 128 and the
number where a signal ended it."""

FIRST, LAST = 200_000, 2_000_000
"""Bytes of the output that are kept: its beginning tells of the system, its end of the failure."""
_CHUNK = 1 << 16
_POLL = 0.5  # seconds after which is looked whether the command still runs, where it prints nothing
_AFTERWARDS = 1.0  # seconds of silence after its end: a process that it left behind may hold its streams for days


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


class _Passing:
    """What a command prints, on its way: both streams go on as they come, each to its own; the log has them by
    their arrival.
    """

    def __init__(self, process: subprocess.Popen[bytes], kept: Kept) -> None:
        self._process, self._kept = process, kept
        self._waiting = selectors.DefaultSelector()
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if source is not None:
                self._waiting.register(os.dup(source.fileno()), selectors.EVENT_READ, target and target.buffer)
                source.close()

    def to_the_end(self) -> None:
        """Until both streams are closed, or the command is gone and what it left behind prints nothing any more."""
        while self._waiting.get_map():
            gone = self._process.poll() is not None
            ready = self._waiting.select(_AFTERWARDS if gone else _POLL)
            if gone and not ready:
                return
            for key, _ in ready:
                self._part(key)

    def _part(self, key: selectors.SelectorKey) -> None:
        part = os.read(key.fd, _CHUNK)
        self._kept.add(part)
        try:
            if key.data is not None:
                key.data.write(part)
                key.data.flush()
        except BrokenPipeError:  # its reader went away, as of `| head`: the command has to see that too
            os.dup2(os.open(os.devnull, os.O_WRONLY), key.data.fileno())
            part = b""
        if not part:
            self._waiting.unregister(key.fileobj)
            os.close(key.fd)


def _forward(process: subprocess.Popen[bytes]) -> None:
    """Who ends `run` means the command, which would be left behind."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and threading.current_thread() is threading.main_thread():
            signal.signal(getattr(signal, name), lambda number, _: process.send_signal(number))


def _ended(process: subprocess.Popen[bytes], kept: Kept) -> int:
    """Waits to the end: an interrupt from the terminal goes to the command too, which decides what becomes of it."""
    _forward(process)
    passing = _Passing(process, kept)
    while True:
        try:
            passing.to_the_end()
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
        return 126 if isinstance(error, PermissionError) else 127
    kept = Kept()
    code = _ended(process, kept)
    if code:
        print(file=sys.stderr)
        print_here(kept.text(), file=sys.stderr)
    return 128 - code if code < 0 else code
