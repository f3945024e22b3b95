# SPDX-License-Identifier: MIT
"""Hugging Face's `kernels` loads the folder that the release makes, from a disk, in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright_toolchain.hub.folder import VARIANT, make
from tests.integrations.conftest import needed
from tests.tree import ROOT

pytestmark = pytest.mark.torch
NAME = "kernelwright"

LOADS = """
import sys
from pathlib import Path
from kernels import get_local_kernel

assert "kernelwright" not in sys.modules
folder = Path(sys.argv[1])
kernel = get_local_kernel(folder)
import torch
from kernelwright import _library

assert Path(kernel.kernelwright.__file__).is_relative_to(folder), kernel.kernelwright.__file__
assert Path(_library.load().path).is_relative_to(folder), _library.load().path
x, weight = torch.randn(8, 512), torch.randn(512)
torch.testing.assert_close(kernel.rms_norm(x, weight), torch.nn.functional.rms_norm(x, (512,), weight, 1e-6))
model = kernel.nn.quantize_(torch.nn.Sequential(torch.nn.Linear(512, 64)))
assert type(model[0]).__name__ == "Linear4bit" and torch.isfinite(model(x)).all()
assert get_local_kernel(folder) is kernel
print("version", kernel.__version__)
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The one that these tests run with, in dist/ since it was built."""
    needed("kernels")
    found = sorted((ROOT / "dist").glob(f"{NAME}-*_x86_64.whl")) if os.uname().machine == "x86_64" else []
    if not found:
        pytest.skip("no wheel for this machine in dist/ (./kw build makes it)")
    return found[0]


@pytest.fixture
def folder(wheel, tmp_path) -> Path:
    make([wheel], tmp_path / "hub", NAME)
    return tmp_path / "hub"


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    # torch would import the installed kernelwright, as it does every backend's package.
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=folder)


def test_the_folder_is_loaded_and_computes(folder):
    done = run(folder, LOADS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("version ")


def test_another_version_in_the_process_is_refused(folder):
    program = """
import sys, types
other = types.ModuleType("kernelwright")
other.__version__, other.__file__ = "0.0.1", "elsewhere"
sys.modules["kernelwright"] = other
from pathlib import Path
from kernels import get_local_kernel
get_local_kernel(Path(sys.argv[1]))
"""
    done = run(folder, program)
    assert done.returncode == 1
    assert "kernelwright 0.0.1 of elsewhere is loaded already" in done.stderr


def test_a_machine_without_a_build_is_told(folder):
    variant = folder / VARIANT
    shutil.move(variant / "x86_64", variant / "riscv64")
    done = run(folder, LOADS)
    assert done.returncode == 1
    assert "kernelwright has no build for x86_64" in done.stderr
    assert "it has riscv64" in done.stderr
