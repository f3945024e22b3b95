# SPDX-License-Identifier: MIT
"""NVRTC from NVIDIA's wheels: provisioned under .kw/tools, or importable beside this interpreter's modules."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.targets import Toolkit


def _library(home: Path) -> Path | None:
    """libnvrtc in one installation; its builtins and its variants have longer names."""
    found = sorted(home.glob("nvidia/**/libnvrtc.so.*"))
    return next((path for path in found if path.suffix[1:].isdigit()), None)


def _importable(toolkit: Toolkit) -> Path | None:
    """libnvrtc of exactly the row's version among the modules of this interpreter."""
    try:
        distribution = importlib.metadata.distribution(toolkit.pypi["nvrtc"])
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version != toolkit.components["nvrtc"]:
        return None
    return _library(Path(str(distribution.locate_file(""))))


def here(toolkit: Toolkit, machine: str) -> Path | None:
    """libnvrtc of this toolkit, if nothing need be fetched for it."""
    home = pip.home(project().data(toolkit.locks[machine]))
    return (_library(home) if home.is_dir() else None) or _importable(toolkit)


def library(toolkit: Toolkit, machine: str) -> Path:
    """libnvrtc of this toolkit, provisioned if it is not there."""
    if found := here(toolkit, machine):
        return found
    home = pip.install(project().data(toolkit.locks[machine]))
    found = _library(home)
    if found is None:
        raise ProvisionError(f"{toolkit.locks[machine]} was installed into {home}, but there is no libnvrtc.so in it")
    return found
