# SPDX-License-Identifier: MIT
"""The table of targets: `load()` gives targets.toml as frozen, validated values."""

from kernelwright_toolchain.targets.model import Code, Library, Table, Target, Toolkit, Version
from kernelwright_toolchain.targets.read import load, parse

__all__ = ["Code", "Library", "Table", "Target", "Toolkit", "Version", "load", "parse"]
