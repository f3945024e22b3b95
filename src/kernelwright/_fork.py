# SPDX-License-Identifier: MIT
"""The first call imports modules, torch among them, opens the library and registers operators. In a child that was
forked meanwhile the thread that did so is gone, and whoever came to its locks would wait for ever.

So a fork waits until no other thread is inside a section. Not for ever: what a section waits for may be a lock that the
forking thread holds, as that of a module which it is importing. A child of such a fork is refused in words.

This module is imported with the package, since its own import must not be cut in two either.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

from kernelwright.errors import Forked

PATIENCE = 30.0  # seconds; from a slow disk torch takes half of it to import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


class Section:
    """What a fork must not cut in two: `with section:`, in any thread, nested or not. It is no lock: threads that come
    together do not wait here. What a child is refused is to enter."""

    def __init__(self) -> None:
        self._inside: dict[int, int] = {}  # thread -> how deep
        self.is_cut = False
        os.register_at_fork(before=self._before, after_in_child=self._in_child)

    def __enter__(self) -> None:
        if self.is_cut:
            raise Forked(
                "this process was forked while another thread of its parent made its first call of kernelwright: half "
                "of torch's or kernelwright's modules, and locks that nobody will release, are here. Call kernelwright "
                "once before the fork, or start processes with the spawn or forkserver method"
            )
        me = _thread.get_ident()
        self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        me = _thread.get_ident()
        self._inside[me] -= 1
        if not self._inside[me]:
            del self._inside[me]

    def _others(self) -> bool:
        return bool(self._inside.keys() - {_thread.get_ident()})

    def _before(self) -> None:
        if self._others():
            with _Handlers():
                end = time.monotonic() + PATIENCE
                while self._others() and time.monotonic() < end:
                    time.sleep(0.001)

    def _in_child(self) -> None:
        me = _thread.get_ident()
        self.is_cut = self.is_cut or self._others()
        self._inside = {me: self._inside[me]} if me in self._inside else {}


class _Handlers:
    """The standard library's own handlers around a wait in ours. They take a lock before a fork and release it after.

    Python calls the later ones first, so this thread may have logging's already, which the import of torch needs: it is
    given back meanwhile. And what was imported meanwhile has not been called before the fork, but will be after it.
    """

    def __enter__(self) -> None:
        self.before = _locks()
        self.own = [lock for lock in self.before.values() if getattr(lock, "_is_owned", bool)()]
        for lock in self.own:
            lock.release()

    def __exit__(self, *_: object) -> None:
        new = [lock for name, lock in _locks().items() if name not in self.before]
        for lock in self.own + new:
            lock.acquire()


def _locks() -> dict[str, Any]:
    names = {"logging": "_lock", "concurrent.futures.thread": "_global_shutdown_lock"}
    found = {module: getattr(sys.modules.get(module), name, None) for module, name in names.items()}
    return {module: lock for module, lock in found.items() if lock is not None}


section = Section()
