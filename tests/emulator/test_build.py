# SPDX-License-Identifier: MIT
"""Which images the emulated driver is given: those in whose files the code of a GPU lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator import build


def row(op: str, code: str, by: str | None = None) -> dict[str, object]:
    kernels = [{"name": f"{op}_k", "max_threads": 32}]
    return {"op": op, "code": code, "kernels": kernels, "served_by": {"code": by} if by else None}


def test_an_image_that_was_left_out_is_the_one_that_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: dict[str, list[str]] = {}

    def build_image(code: str, kernels: dict[Path, dict[str, int]], *_: object) -> None:
        made[code] = sorted(path.stem for path in kernels)

    monkeypatch.setattr(build, "build_image", build_image)
    ops = ("rms_norm", "swiglu")
    rows = [*(row(op, "sm_86") for op in ops), row("rms_norm", "sm_89", "sm_86"), row("swiglu", "sm_89")]
    build.build_operators({"toolkit": "cu122", "images": rows}, ["sm_89"], tmp_path / "libcuda.so.1", tmp_path)
    assert made == {"sm_86": ["rms_norm", "swiglu"], "sm_89": ["swiglu"]}
