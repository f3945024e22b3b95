# SPDX-License-Identifier: MIT
"""Every kernel of the installed package on emulated GPUs, against float64 (program.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.emulator import build
from tests.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.torch]

# By code: devices, and every how many-th case. One has clusters and the overlap of kernels, the other has not. On a
# second device of one multiprocessor and a small L2, rows are long and many where calls are still small.
RUNS = {"sm_90a": ("9.0/132/50,9.0/1/0.2", "--every", "16"), "sm_80": ("8.0/108/40,8.0/1/0.25", "--every", "24")}


# The same numbers in each run, so that a change is judged by itself; the weekly one draws others.
SEED = ("--seed", "20261127")


@pytest.fixture(scope="module")
def seed(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return () if request.config.getoption("--long") else SEED


@pytest.fixture(scope="module")
def ran(operators: Path, seed: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """By code what program.py printed last; both run at once."""
    folder, codes = operators, [code for code in RUNS if build.kernels_of(code)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = {}
    for code in codes:
        command = [sys.executable, "-m", "tests.emulator.program", folder, *RUNS[code], "--all-of", code, *seed]
        started[code] = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    printed = {}
    for code, process in started.items():
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, out + err
        printed[code] = json.loads(out.splitlines()[-1])
    return printed


def test_numbers_memory_and_order(ran: dict[str, dict[str, Any]]):
    """Right within the record's bounds; nothing is touched but what is the call's own; nobody waits in vain or not."""
    for code, printed in ran.items():
        assert printed["calls"] > 100
        words = printed["failures"]
        assert not words, "\n".join([f"{len(words)} calls on {code} (seed {printed['seed']}):", *words[:20]])


@pytest.fixture(scope="module")
def stepped(operators: Path) -> dict[str, dict[str, Any]]:
    """By code what steps.py printed last."""
    printed = {}
    for code in (code for code in RUNS if build.kernels_of(code)):
        command = [sys.executable, "-m", "tests.emulator.steps", operators, RUNS[code][0].partition(",")[0]]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed[code] = json.loads(done.stdout.splitlines()[-1])
    return printed


def test_steps_whose_number_moves_on(stepped: dict[str, dict[str, Any]]):
    """The same calls again are the next step, to the bit: what a captured CUDA graph replays."""
    for code, printed in stepped.items():
        assert printed["calls"] > 100
        assert printed["failures"] == [], f"{code} (seed {printed['seed']})"


def test_every_kernel_ran(ran: dict[str, dict[str, Any]], stepped: dict[str, dict[str, Any]]):
    for code, printed in ran.items():
        left_out = set(printed["left_out"]) - set(stepped[code]["launched"])
        assert not left_out, f"no case of the records launches them on {code}, nor is one found"


def test_norms_of_many_widths(operators: Path, seed: tuple[str, ...]):
    if not build.kernels_of("sm_90a"):
        pytest.skip("the installed wheel has no images for sm_90a")
    command = [sys.executable, "-m", "tests.emulator.widths", operators, "9.0/4/1,9.0/1/0.2", *seed]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("code", "devices"), [("sm_90a", "9.0/1/1,9.0/2/1,9.0/5/1"), ("sm_80", "8.0/4/1")])
def test_linear_of_random_shapes(operators: Path, seed: tuple[str, ...], code: str, devices: str):
    if not build.kernels_of(code):
        pytest.skip(f"the installed wheel has no images for {code}")
    command = [sys.executable, "-m", "tests.emulator.layers", operators, devices, *seed]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("code", "devices"), [("sm_90a", "9.0/1/1,9.0/2/1,9.0/5/1"), ("sm_80", "8.0/4/1")])
def test_fp8_of_random_shapes(operators: Path, seed: tuple[str, ...], code: str, devices: str):
    if not build.kernels_of(code):
        pytest.skip(f"the installed wheel has no images for {code}")
    command = [sys.executable, "-m", "tests.emulator.products_fp8", operators, devices, *seed]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("code", "devices"), [("sm_90a", "9.0/132/50,9.0/1/0.25"), ("sm_80", "8.0/108/40")])
def test_ternary_layers_have_the_bits_of_their_operators(
    operators: Path, seed: tuple[str, ...], code: str, devices: str
):
    if not build.kernels_of(code):
        pytest.skip(f"the installed wheel has no images for {code}")
    command = [sys.executable, "-m", "tests.emulator.layers_ternary", operators, devices, *seed]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_products_by_warps_of_fp8(operators: Path, seed: tuple[str, ...]):
    """Kernels that no wheel of the reference toolkit has."""
    command = [sys.executable, "-m", "tests.emulator.tiles_fp8", operators, *seed]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# The operators give zeros by themselves; this is a caller of the C functions.
NO_ROWS = """
import os, sys
from pathlib import Path
import torch
from kernelwright import _library
from tests.emulator.emulated import Driver, memory

folder = Path(sys.argv[1])
os.environ |= {"KW_EMULATOR_DEVICES": sys.argv[2], "KW_EMULATOR_IMAGES": str(folder)}
driver = Driver(folder / "libcuda.so.1")
library = _library.load()
for cols in (1, 64, 1024, 5003):
    with memory(driver, 0, 0) as device:
        sums = [device.empty(cols, dtype=torch.float32) for _ in range(3)]
        first, *both = (s.data_ptr() for s in sums)
        rest = (0, cols, 2, 0, 1e-6)
        library.call("kw_rms_norm_backward", 0, None, None, cols, first, *[None, cols] * 3, *[None] * 3, 0, *rest)
        library.call("kw_layer_norm_backward", 0, None, None, cols, *both, *[None, cols] * 3, *[None] * 4, 0, *rest)
        assert not torch.cat(sums).count_nonzero(), cols
"""


@pytest.mark.parametrize("code", RUNS)
def test_sums_over_no_rows_are_zero(operators: Path, code: str):
    if not build.kernels_of(code):
        pytest.skip(f"the installed wheel has no images for {code}")
    command = [sys.executable, "-c", NO_ROWS, operators, RUNS[code][0].partition(",")[0]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
