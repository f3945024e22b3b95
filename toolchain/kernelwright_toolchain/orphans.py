# SPDX-License-Identifier: MIT
"""Ends what the holder of a lock started and left running, through whatever programs: ninja's compilers too.

While a lock is held, the environment names it, and every process started meanwhile inherits that. A watcher waits at a
pipe for the holder's end, however it ends; it ends all of these processes, and only then lets go of the lock, which it
holds as well. Should the watcher be killed together with its holder, the next holder does the same before it begins.

The watcher is this file as a script: `orphans.py MARK`, under `python -I -S`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "KW_HELD"  # the marks of the locks held above a process, with spaces between


def mark_of(lock: Path) -> str:
    """What stands in the environment for this lock: no path, which might get into what is built."""
    return hashlib.sha256(os.fsencode(lock.resolve())).hexdigest()[:16]


def environment(process: Path) -> bytes:
    """Of a folder of /proc. While a process is changing its program the kernel shows none: then it is looked at again.

    Which is how a compiler just started would be overlooked. A zombie and a thread of the kernel have no program.
    """
    for _ in range(100):
        if found := (process / "environ").read_bytes():
            return found
        (process / "exe").readlink()
        ends_at = (process / "stat").read_text().rpartition(")")[2].split()[48]  # env_end, the 51st of its figures
        if int(ends_at):  # the program has begun; with nothing in its environment, unless it did so just now
            return (process / "environ").read_bytes()
        time.sleep(0.001)
    return b""


def marked(mark: str) -> list[int]:
    """The processes that were started below a holder of the lock. A zombie is none."""
    begins = f"{VARIABLE}=".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or somebody else's
            lines = environment(folder).split(b"\0")
            marks = next((line.removeprefix(begins).split() for line in lines if line.startswith(begins)), [])
            if mark.encode() in marks and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


def end(mark: str) -> int:
    """Ends them all; how many there were. What they start while they are being ended is ended too."""
    ended: set[int] = set()
    while left := marked(mark):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.update(left)
        time.sleep(0.01)
    return len(ended)


@contextmanager
def guarded(lock: Path, handle: int) -> Iterator[int]:
    """For the time that this process holds the lock, which is open as `handle`; gives how many were left of before."""
    mark = mark_of(lock)
    left = end(mark)
    before = os.environ.get(VARIABLE)
    plain = {key: value for key, value in os.environ.items() if key != VARIABLE}
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark],
        env=plain, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[handle],
        start_new_session=True,  # no signal to the holder's group reaches it
    )  # fmt: skip
    os.environ[VARIABLE] = f"{before or ''} {mark}".strip()
    try:
        yield left
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        watcher.communicate()  # the pipe's end is the sign; it answers by ending
        end(mark)  # had somebody killed the watcher


def main(mark: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end(mark)


if __name__ == "__main__":
    main(sys.argv[1])
