# SPDX-License-Identifier: MIT
"""A tiny run of an operator against plain Python, as data: what is wrong becomes a value, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright import _library, errors, ops
from kernelwright.ops._selfcheck import OnCpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright._library import Library
    from kernelwright.ops._selfcheck import Place


class Busy(Exception):
    """Other processes have what a run needs: that is no fault of this machine or installation."""


def run(name: str, place: Callable[[Library], Place]) -> dict[str, Any]:
    """{"name", and "right": how good it was | "error": what was wrong | "left_out" | "no_cpu": why}.

    Raises Busy alone.
    """
    try:
        library = _library.opened()
        if name not in library.ops:
            return {"name": name, "left_out": True}
        op = ops.record(name)
        if op.no_cpu and place is OnCpu:
            return {"name": name, "no_cpu": op.no_cpu}
        return {"name": name, "right": op.selfcheck(place(library))}
    except Busy:
        raise
    except Exception as error:  # noqa: BLE001 - a report of a broken installation must reach its end
        return {
            "name": name,
            "error": f"{type(error).__name__}: {error}",
            "own": isinstance(error, errors.SelfCheckFailed),
        }


def on_cpu() -> list[dict[str, Any]]:
    return [run(name, OnCpu) for name in ops.names()]
