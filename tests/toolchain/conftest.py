# SPDX-License-Identifier: MIT
"""Fixtures of the device tests: the compilers and tools of this machine, or a skip that says what is missing."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for device_support, machine_support

from machine_support import ENVIRONMENTS

from kernelwright_toolchain import targets
from kernelwright_toolchain.__main__ import PARENT_ENDED, SIGNALS
from kernelwright_toolchain.device import Nvcc, Nvrtc
from tests.tree import ROOT

REFERENCE = "cu122"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """These tests may run inside a conda environment or a Nix shell; they say themselves which one a build is in."""
    for name in ENVIRONMENTS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def signals_as_before():
    """A verb that a test runs in this process listens to signals, and ignores them from the first one on."""
    before = {number: signal.getsignal(number) for number in (*SIGNALS, PARENT_ENDED)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background job
    yield
    for number, action in before.items():
        signal.signal(number, action)


def _packages(pattern: str) -> list[Path]:
    """Files of NVIDIA's wheels, of this environment or of the ones that the build provisions."""
    # Without those that another test, in a process beside this one, is filling.
    made = [path for path in (ROOT / ".kw" / "tools").glob("*") if ".part-" not in path.name]
    homes = [Path(entry) for entry in sys.path if entry] + sorted(made)
    return [path for home in homes for path in sorted(home.glob(f"nvidia/{pattern}")) if ".alt." not in path.name]


@pytest.fixture(scope="session")
def table():
    return targets.load()


@pytest.fixture(scope="session")
def memo(tmp_path_factory):
    return tmp_path_factory.mktemp("memo")


@pytest.fixture(scope="session")
def every_nvrtc(memo):
    """Each NVRTC that is here, one a release."""
    libraries = _packages("*/lib/libnvrtc.so.*")
    found = {compiler.release: compiler for compiler in (Nvrtc(library, memo=memo) for library in libraries)}
    if not found:
        pytest.skip("no NVRTC: `./kw provision` brings it")
    return found


@pytest.fixture(scope="session")
def nvrtc(every_nvrtc, table):
    """NVRTC of the reference toolkit."""
    release = str(table.toolkits[REFERENCE].release)
    if release not in every_nvrtc:
        pytest.skip(f"NVRTC {release} is not here, only {', '.join(every_nvrtc)}: `./kw provision` brings it")
    return every_nvrtc[release]


@pytest.fixture(scope="session")
def nvcc(memo):
    path = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not path:
        pytest.skip("no nvcc on PATH or in /usr/local/cuda/bin: install a CUDA toolkit to run this")
    if not shutil.which("gcc"):
        pytest.skip("nvcc is here, but no gcc that it could preprocess with")
    return Nvcc(Path(path), memo=memo)


@pytest.fixture(params=["nvrtc", "nvcc"])
def compiler(request):
    """Either driver; a test with this runs once for each."""
    return request.getfixturevalue(request.param)


def _tool(name: str) -> Path:
    path = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    found = [Path(path)] if path else _packages(f"*/bin/{name}")
    if not found:
        pytest.skip(f"no {name}: `pip install nvidia-cuda-{name}` or a CUDA toolkit brings it")
    return found[-1]


@pytest.fixture(scope="session")
def cuobjdump():
    return _tool("cuobjdump")


@pytest.fixture(scope="session")
def nvdisasm():
    return _tool("nvdisasm")


@pytest.fixture(scope="session")
def ptxas():
    return _tool("ptxas")
