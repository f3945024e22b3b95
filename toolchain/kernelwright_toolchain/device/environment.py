# SPDX-License-Identifier: MIT
"""The environment variables a device build reads, all of them, here alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.project import project

CACHE = "KERNELWRIGHT_CACHE"
JOBS = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")  # as PyTorch's extensions and CMake name it; the first one set counts


@dataclass(frozen=True)
class JobLimit:
    """How many compilers may run at once, and who said so."""

    count: int
    source: str


def cache_dir(given: Path | None = None) -> Path:
    """Where compiled images are kept: the argument, else KERNELWRIGHT_CACHE, else .kw/cache of this tree."""
    if given is not None:
        return given
    named = os.environ.get(CACHE)
    return Path(named) if named else project().state / "cache"


def job_limit(asked: int | None) -> JobLimit:
    """-j, else the first of JOBS that is set, else the CPUs this process may use."""
    if asked is not None:
        if asked < 1:
            raise RequestError(f"-j {asked} makes no sense; ask for 1 or more")
        return JobLimit(asked, f"-j {asked}")
    for name in JOBS:
        text = os.environ.get(name, "")
        if text:
            if not text.isascii() or not text.isdigit() or int(text) < 1:
                raise RequestError(f"{name}={text!r} is not a number of jobs; set it to 1 or more, or unset it")
            return JobLimit(int(text), f"{name}={text}")
    cpus = len(os.sched_getaffinity(0))
    return JobLimit(cpus, f"{cpus} CPU{'s' if cpus > 1 else ''}")
