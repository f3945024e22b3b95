# SPDX-License-Identifier: MIT
"""Who runs a case: this package, torch eager, torch.compile, and what bench/peers/<family>/<op>.py has beside them.

A contestant is a function that takes the case's arguments and returns the call to time.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import TYPE_CHECKING, Any

from kernelwright import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernelwright.bench.harness.subject import Subject

    Prepare = Callable[..., Callable[[], Any]]

OURS, EAGER, COMPILE, COPY = "kernelwright", "eager", "compile", "copy"
ON_CPU = ("bitsandbytes",)  # the others are made of Triton or CUDA


def _direct(function: Callable[..., Any]) -> Prepare:
    return lambda *arguments: lambda: function(*arguments)


def _compiled(subject: Subject) -> Prepare:
    """The reference as torch.compile makes it: one shape, no graph breaks, its default mode."""
    import torch

    # References look element types up in a cached function; that dynamo looks through the cache is what is wanted.
    warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
    torch.compiler.reset()
    return _direct(torch.compile(subject.overload.reference, dynamic=False, fullgraph=True))


def peers(op: str) -> Mapping[str, Callable[[], Mapping[str, Prepare]]]:
    """The public functions of its family's peers/<op>.py: each imports a peer and gives its contestants by overload."""
    name = f"kernelwright.bench.peers.{ops.families()[op]}.{op}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return {}
    functions = inspect.getmembers(module, inspect.isfunction)
    return {name: f for name, f in functions if not name.startswith("_") and f.__module__ == module.__name__}


def contestants(subject: Subject, device: str, wanted: Callable[[str], bool]) -> tuple[dict[str, Prepare], list[str]]:
    """By name; and for each peer that is known but not here, a line that says why."""
    overload, absent = subject.case.overload, []
    found: dict[str, Prepare] = {OURS: _direct(subject.call())}
    if wanted(EAGER):
        found[EAGER] = subject.op.eager.get(overload, _direct(subject.overload.reference))
    if wanted(COMPILE):
        found[COMPILE] = _compiled(subject)
    for name, load in peers(subject.op.name).items():
        if not wanted(name):
            continue
        try:
            calls = load() if device == "cuda" or name in ON_CPU else {}
        except ImportError as error:
            absent.append(f"{name} does not run: {error}")
            continue
        if overload in calls:
            found[name] = calls[overload]
    return found, absent
