# SPDX-License-Identifier: MIT
"""How far a long loop is, for whoever watches it."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")


def progress(items: Sequence[T], what: str, show: bool | None = None) -> Iterator[T]:
    """The items, with a bar on standard error: tqdm's where it is installed, a line of text where not.

    show  None: only on a terminal, so that logs and pipes stay clean
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield from items
        return
    bar = _tqdm()
    if bar is not None:
        yield from bar(items, desc=what, unit="layer")
        return
    for done, item in enumerate(items):
        print(f"\r{what}: {done} of {len(items)}", end="", file=sys.stderr, flush=True)
        yield item
    print(f"\r{what}: {len(items)} of {len(items)}", file=sys.stderr)


def _tqdm() -> Any:
    try:
        return importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
