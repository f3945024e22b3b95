# SPDX-License-Identifier: MIT
"""[project] of the toolchain's own pyproject.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright_toolchain.targets.read import toml
from kernelwright_toolchain.wheel.metadata import known


def project(tree: Path) -> Mapping[str, Any]:
    path = tree / "pyproject.toml"
    return known(toml(path.read_text(encoding="utf-8"), str(path))["project"], path)
