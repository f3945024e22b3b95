# SPDX-License-Identifier: MIT
"""Skips what this machine cannot run, and says why. A marker is the only way to ask for it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache

import pytest

# In a process of its own: a process that has called cuInit must not fork any more, and tests do.
_PROBE = """
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    raise SystemExit(f"no NVIDIA driver: {error}")
count = ctypes.c_int()
status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
if status or not count.value:
    raise SystemExit(f"the driver finds no GPU (status {status})")
"""


@cache
def _why_no_torch() -> str | None:
    return None if importlib.util.find_spec("torch") else "torch is not installed"


@cache
def _why_no_gpu() -> str | None:
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=120, check=False)
    return None if done.returncode == 0 else done.stderr.strip() or f"the GPU probe exited with {done.returncode}"


@cache
def _why_no_torch_gpu() -> str | None:
    import torch

    return None if torch.cuda.is_available() else f"torch {torch.__version__} cannot use this GPU"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelwright")
    group.addoption(
        "--calls", type=int, default=10_000, help="odd calls that tests/python/test_hostile.py makes, of each kind"
    )
    group.addoption("--calls-seed", type=int, help="the seed of other ones; --long draws it")
    group.addoption(
        "--bitsandbytes", metavar="PATH", help="tests/ of a checkout of bitsandbytes, to run with kernelwright"
    )
    group.addoption("--bitsandbytes-only", metavar="EXPRESSION", help="of those the ones that -k EXPRESSION names")
    group.addoption(
        "--long",
        action="store_true",
        help="also tests marked `long`, and all combinations where else each pair is taken",
    )
    group.addoption("--whole", action="store_true", help="verify whole wheels, not one operator for one code: minutes")


def _without_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if config.getoption("--long") else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _without_long(config, items)
    # The quickest come first. But of several processes (`-n 2 --dist loadfile --no-loadscope-reorder`) none shall begin
    # with minutes of slow tests when the others have ended: there modules that have some follow the rules about the tree.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    side_by_side = hasattr(config, "workerinput")
    items.sort(key=lambda item: "layout" not in item.path.parts and 1 + ((item.path in slow) != side_by_side))
    for item in items:
        torch, gpu = item.get_closest_marker("torch"), item.get_closest_marker("gpu")
        reason = (_why_no_torch() if torch else None) or (_why_no_gpu() if gpu else None)
        if reason is None and torch and gpu:
            reason = _why_no_torch_gpu()
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
