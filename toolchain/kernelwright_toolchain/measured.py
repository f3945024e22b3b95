# SPDX-License-Identifier: MIT
"""Runs a program under a small process of its own, which tells how the program ended and what memory it took at most.

Linux counts the memory that a process had before exec among what it took, and that was its parent's: a child of ours
would never be smaller than we are, and we may run inside anything. So a small parent comes between.

That one is this file as a script: `measured.py REPORT COMMAND…`, under `python -I -S`.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # typing itself would double what the small process takes to start
if TYPE_CHECKING:
    from collections.abc import Sequence


def command(words: Sequence[str], report: int) -> list[str]:
    """Runs `words`, and tells of it in the file open as `report`, which has to be handed down (pass_fds)."""
    return [sys.executable, "-I", "-S", __file__, str(report), *words]


def outcome(report: int, code: int) -> tuple[int, int]:
    """Exit code (negative: a signal's) and bytes of the largest process of all that ran and was waited for.

    `code` is the small process's own, which counts if it was killed before it could tell. OSError as Popen's.
    """
    told = os.pread(report, 64, 0).split()
    if not told:
        return code, 0
    number, peak = map(int, told)
    if peak < 0:
        raise OSError(number, os.strerror(number))
    return number, peak


def main(report: int, words: list[str]) -> None:
    os.set_inheritable(report, False)
    for_others = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores them, and others would inherit that
    try:
        child = os.posix_spawnp(words[0], words, os.environ, setsigdef=for_others)
    except OSError as error:
        os.write(report, b"%d -1" % (error.errno or 0))
        return
    _, status, usage = os.wait4(child, 0)
    os.write(report, b"%d %d" % (os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
