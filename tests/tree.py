# SPDX-License-Identifier: MIT
"""Where the tree lies, for tests that read it or run its commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright_toolchain.project import Project

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Beside(Project):
    """This tree's sources; what is made of them lies elsewhere."""

    place: Path

    @property
    def state(self) -> Path:
        return self.place / ".kw"

    @property
    def dist(self) -> Path:
        return self.place / "dist"


def serve(monkeypatch: Any, project: Project) -> None:
    """Until the test ends, the toolchain works for this project."""
    monkeypatch.setattr("kernelwright_toolchain.project._chosen", [project])
