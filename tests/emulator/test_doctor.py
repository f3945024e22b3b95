# SPDX-License-Identifier: MIT
"""`python -m kernelwright` on a machine whose GPU is emulated: it runs every kernel that it says it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelwright import ops
from kernelwright_toolchain.device.compiler import source_of
from tests.emulator import build
from tests.tree import ROOT

DEVICES = {"sm_90a": "9.0/132/50", "sm_80": "8.0/108/40"}


def doctor(folder: Path, devices: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    given = {"KW_EMULATOR_DEVICES": devices, "KW_EMULATOR_IMAGES": str(folder), "LD_LIBRARY_PATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "kernelwright", *options],
        env={**os.environ, **given, **variables},
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )


def told(folder: Path, devices: str, **variables: str) -> dict[str, Any]:
    done = doctor(folder, devices, "--json", **variables)
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.stderr, done.returncode == 0) == ("", found["success"])
    return found


def one_code() -> str:
    return next(code for code in DEVICES if build.kernels_of(code))


@pytest.mark.slow
def test_every_operator_runs_on_one_gpu_of_each_kind(operators: Path) -> None:
    codes = [code for code in DEVICES if build.kernels_of(code)]
    found = told(operators, ",".join(DEVICES[code] for code in [*codes, codes[0]]))  # two of the first kind
    assert [gpu["image"] for gpu in found["gpus"]] == [*codes, codes[0]]
    runs = found["operators_on_gpus"]["gpus"]
    assert [gpu["ordinal"] for gpu in runs] == list(range(len(codes)))
    for gpu in runs:
        assert [each["name"] for each in gpu["operators"]] == list(ops.names())
        assert all("% of the error allowed" in each["right"] for each in gpu["operators"])
    lines = doctor(operators, DEVICES[codes[0]]).stdout.splitlines()
    for name in ops.names():
        for where in ("on the CPU", "on GPU 0"):
            assert lines.count(f"{name:<12} ok, {where}") == 1, (name, where)
    assert lines[-1] == "SUCCESS"


@pytest.mark.slow
def test_kernels_that_do_nothing(operators: Path) -> None:
    """Each operator's check notices, and the report fails."""
    found = told(operators, DEVICES[one_code()], KW_EMULATOR_IDLE="1")
    [gpu] = found["operators_on_gpus"]["gpus"]
    assert [each["name"] for each in gpu["operators"] if each.get("own")] == list(ops.names())
    assert all("right" in each for each in found["operators"])  # on the CPU all is well


WRONG = {
    "codes[s] >> code_shift(i)": (
        "codes[s] >> code_shift(i ^ 1)",
        "SelfCheckFailed: dequantize_4bit, nf4, float32: element ",
    ),
    "if (i >= left) break;\n    const u32 element": (
        "if (i > left) break;\n    const u32 element",
        "SelfCheckFailed: kw_dequantize_4bit: memory that is in none of its buffers was written, behind number 1",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("there", WRONG, ids=["an order", "a bound"])
def test_a_wrong_kernel(operators: Path, tmp_path: Path, there: str) -> None:
    """One operator's image, and one word of its source is another; the rest of the image is missing."""
    instead, words = WRONG[there]
    code, op = one_code(), "dequantize_4bit"
    source, headers = tmp_path / f"{op}.cu", {}
    for path, place in {ROOT / source_of(ROOT, op): Path(source.name), **build.headers()}.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(path.read_text(encoding="utf-8").replace(there, instead), encoding="utf-8")
        headers[tmp_path / place] = place
    assert any(instead in path.read_text(encoding="utf-8") for path in headers)
    [image] = [one for one in build.manifest()["images"] if (one["op"], one["code"]) == (op, code)]
    kernels = {kernel["name"]: kernel["max_threads"] for kernel in image["kernels"]}
    build.build_image(code, {source: kernels}, headers, operators / "libcuda.so.1", tmp_path)
    found = told(operators, DEVICES[code], KW_EMULATOR_IMAGES=str(tmp_path))
    assert not found["success"]
    [gpu] = found["operators_on_gpus"]["gpus"]
    [wrong] = [each for each in gpu["operators"] if each["name"] == op]
    missing = [each for each in gpu["operators"] if each["name"] != op]
    assert wrong["own"]
    assert wrong["error"].startswith(words)
    assert all("own" in each and not each["own"] for each in missing)
