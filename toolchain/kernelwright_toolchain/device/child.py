# SPDX-License-Identifier: MIT
"""Runs one compile in a process of its own: its memory is measured, its crash is ours to tell, its words are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain import measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

# What would slip options or headers into a compile that the cache key does not know.
_UNWANTED = (
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
)


_running: set[int] = set()
_lock = threading.Lock()


def end_all() -> None:
    """Ends every compile that runs now, with all its processes. Their callers see them end by a signal."""
    with _lock:
        for pid in _running:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Ended:
    """How a child ended; `code` is negative for a signal."""

    code: int
    output: str
    seconds: float
    peak: int  # bytes, of the largest process among the child and those it waited for

    def why(self) -> str:
        if self.code >= 0:
            return f"exit code {self.code}"
        name = signal.Signals(-self.code).name
        hint = " (out of memory? try -j 1)" if -self.code == signal.SIGKILL else ""
        return f"ended by {name}{hint}"


@contextmanager
def workspace() -> Iterator[Path]:
    """A private directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as name:
        yield Path(name)


def environment(scratch: Path) -> Mapping[str, str]:
    """This process's environment, less what changes a compile unseen; English messages, private temporary files."""
    kept = {key: value for key, value in os.environ.items() if key not in _UNWANTED and not key.startswith("LC_")}
    return {**kept, "LANG": "C", "LC_ALL": "C", "TMPDIR": str(scratch)}


def _in_memory(name: str) -> BinaryIO:
    """A file that is on no disk: what a compile says of a full one would not fit there either."""
    return os.fdopen(os.memfd_create(name), "w+b")


def run(command: Sequence[str], *, cwd: Path, scratch: Path, stdin: bytes = b"") -> Ended:
    """Runs the command to its end. The output is standard output and error together."""
    started = time.monotonic()
    with _in_memory("output") as output, _in_memory("input") as given, _in_memory("report") as report:
        given.write(stdin)
        given.seek(0)
        with _lock:
            child = subprocess.Popen(
                measured.command(command, report.fileno()),
                pass_fds=[report.fileno()],
                cwd=cwd,
                env=environment(scratch),
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own, so that end_all reaches what a compiler starts
            )
            _running.add(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with _lock:  # the number is not free for others before it is off the list
            own = child.wait()
            _running.discard(child.pid)
        code, peak = measured.outcome(report.fileno(), own)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Ended(code, text, time.monotonic() - started, peak)
