# SPDX-License-Identifier: MIT
"""The table of targets: `load()` gives targets.toml as frozen, validated values."""

from toolchain.targets.model import Code, Table, Target, Toolkit, Version
from toolchain.targets.read import PATH, ROOT, load, parse

__all__ = ["PATH", "ROOT", "Code", "Table", "Target", "Toolkit", "Version", "load", "parse"]
