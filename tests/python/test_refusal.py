# SPDX-License-Identifier: MIT
"""Refusals carry the cause: a process with the stand-in driver asks for an operator, on a machine that is made up."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace

import pytest

from kernelwright import _files
from kernelwright.doctor.causes import all_causes
from tests.doctor import made_up, test_doctor_checks
from tests.doctor.made_up import NO_DRIVER, ORIN, WORKSTATION
from tests.doctor.test_doctor_fixes import is_a_command
from tests.python import standin
from tests.python.support import WITHOUT_TORCH, copy_package, run

# One call for a GPU, as an operator makes it; what became of it, as JSON.
CALL = """
import json, pathlib, sys
from kernelwright import _refusal, errors
_, root, made = sys.argv
if root:
    from tests.doctor.made_up import Made
    _refusal.machine = lambda: Made(**json.loads(made)).at(pathlib.Path(root), write=False)
try:
    from kernelwright import _library
    library = _library.load()
    library.call("kw_swiglu", 0, None, 4096, 64, 8192, 64, 16384, 64, 1, 64, 0)
except errors.KernelwrightError as error:
    told = [type(error).__name__, error.code, error.cause, error.fix, str(error), error.then]
else:
    told = None
print(json.dumps([told, "kernelwright.doctor" in sys.modules]))
"""


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    to = tmp_path_factory.mktemp("standin")
    return {form: str(standin.build(to / str(form), form)) for form in (12, 11)}


def capability() -> str:
    """One that this wheel has code for."""
    codes = _files.read(_files.TARGETS)["codes"]
    images = _files.read(_files.MANIFEST)["images"]
    return min(codes[image["code"]]["runs_on"][0] for image in images if image["kind"] == "cubin")


def call(tmp_path, directory="", made=None, package=None, **variables):
    """(class, code, cause, fix, message, then), or None where it was launched; whether it was; whether the doctor was asked."""
    record = tmp_path / "record"
    root = described = ""
    if made is not None:
        made.at(tmp_path / "root")
        root = str(tmp_path / "root")
        described = json.dumps(
            {name: getattr(made, name) for name in ("variables", "says", "driver", "torch", "processor", "kernel")}
        )
    environment = {
        "LD_LIBRARY_PATH": directory,
        "KW_STANDIN_RECORD": str(record),
        "KW_STANDIN_DEVICES": capability(),
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(package.parent) if package else "", os.environ.get("PYTHONPATH")])
        ),
        **variables,
    }
    done = run(WITHOUT_TORCH + CALL, root, described, **environment)
    assert done.stderr == ""
    launched = record.exists() and "cuLaunchKernelEx" in record.read_text()
    told, asked = json.loads(done.stdout)
    return told, launched, asked


TEGRA = ORIN.but(files=made_up.package("nvidia_cublas_cu12", "12.6.4"))
JETPACK_7 = next(machine for code, _, machine in test_doctor_checks.SICK if code == "KW-032")
JETSON_CONTAINER = replace(
    ORIN.but(files={"/.dockerenv": "", "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1": None}), driver=NO_DRIVER
)
BARE = test_doctor_checks.BARE.but(files={"/sys/firmware/efi/efivars/SecureBoot-8be4df61": None})
NOT_LOADED = next(machine for _, word, machine in test_doctor_checks.SICK if word == "is not loaded")
NOUVEAU = next(machine for code, _, machine in test_doctor_checks.SICK if code == "KW-104")
DOCKER = next(machine for code, _, machine in test_doctor_checks.SICK if code == "KW-002")
NIX = next(machine for code, _, machine in test_doctor_checks.SICK if code == "KW-007")
WSL = next(machine for code, _, machine in test_doctor_checks.SICK if code == "KW-008")

# What the stand-in is told, the machine, the exception, its code.
REFUSED = {
    "a driver that is too old": ({"KW_STANDIN_VERSION": "12010"}, None, "DriverTooOld", "KW-076"),
    "a GPU without code": ({"KW_STANDIN_DEVICES": "3.5"}, None, "NoImage", "KW-074"),
    "an image that the wheel lacks": ({"KERNELWRIGHT_ARCH": "sm_1"}, None, "NoImage", "KW-078"),
    "hidden GPUs": (
        {"KW_STANDIN_DEVICES": ""}, WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": ""}), "NoDevice", "KW-012"),
    "a kernel module that is not loaded": ({"KW_STANDIN_DEVICES": ""}, NOT_LOADED, "NoDevice", "KW-001"),
    "no GPU": ({"KW_STANDIN_DEVICES": ""}, None, "NoDevice", "KW-015"),
    "a build for servers on Tegra": ({"KW_STANDIN_FAILS": "cuLibraryGetKernel:500"}, TEGRA, "ImageCorrupt", "KW-030"),
    "Tegra, and CUDA does not start": ({"KW_STANDIN_FAILS": "cuInit:999"}, TEGRA, "CudaError", "KW-030"),
    "Orin on the servers' stack": ({"KW_STANDIN_FAILS": "cuLibraryGetKernel:500"}, JETPACK_7, "ImageCorrupt", "KW-032"),
    "Orin on that stack, an old driver": ({"KW_STANDIN_VERSION": "12010"}, JETPACK_7, "DriverTooOld", "KW-032"),
    "two versions of the driver": (
        {"KW_STANDIN_FAILS": "cuInit:803"}, WORKSTATION.but(files=made_up.module("550.54.15")), "CudaError", "KW-004"),
    "a driver that says so itself": ({"KW_STANDIN_FAILS": "cuInit:803"}, WORKSTATION, "CudaError", "KW-004"),
    "a driver that does not start": ({"KW_STANDIN_FAILS": "cuInit:999"}, WORKSTATION, "CudaError", "KW-009"),
    "PTX that is too new": ({"KW_STANDIN_FAILS": "cuLibraryLoadData:222"}, WORKSTATION, "CudaError", "KW-005"),
    "a toolkit's stub": ({"KW_STANDIN_FAILS": "cuDriverGetVersion:34"}, WORKSTATION.but(
        variables={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"}), "NoDriver", "KW-006"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_before_the_first_launch(tmp_path, drivers, case):
    variables, made, kind, code = REFUSED[case]
    told, launched, _ = call(tmp_path, drivers[12], made, **variables)
    assert told is not None
    cause = all_causes()[code]
    assert told[:3] == [kind, code, cause.why], told[4]
    assert is_a_command(told[3])
    assert not re.search(r"<[a-z]", told[3])
    assert f" [{code}: {cause.title}" in told[4]
    assert told[4].endswith(f"; fix: {told[3]}]")
    assert told[5] is not None
    assert not launched


def test_a_driver_of_cuda_11(tmp_path, drivers):
    told, *_ = call(tmp_path, drivers[11], KW_STANDIN_VERSION="11080")
    assert told[:2] == ["DriverTooOld", "KW-076"]


@pytest.mark.parametrize(
    ("made", "code", "evidence"),
    [
        (BARE, "KW-001", "0000:01:00.0"),
        (DOCKER, "KW-002", "docker"),
        (NIX, "KW-007", "Nix shell"),
        (WSL, "KW-008", "Windows"),
        (NOUVEAU, "KW-104", "nouveau is loaded"),
        (JETSON_CONTAINER, "KW-035", "in this docker container"),
    ],
)
def test_no_driver(tmp_path, made, code, evidence):
    told, *_ = call(tmp_path, str(tmp_path), made)
    assert told[:2] == ["NoDriver", code], told
    assert evidence in told[4]


def test_all_is_well(tmp_path, drivers):
    assert call(tmp_path, drivers[12], KW_STANDIN_VERSION="13000") == (None, True, False)


def test_a_failure_of_a_kernel_is_not_the_machines(tmp_path, drivers):
    told, *_ = call(tmp_path, drivers[12], TEGRA, KW_STANDIN_FAILS="cuLaunchKernelEx:719")
    assert told[:2] == ["CudaError", None]
    assert "CUDA_ERROR_LAUNCH_FAILED" in told[4]


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_kernel_file(tmp_path, drivers, damage):
    package = copy_package(tmp_path)
    for kernel in (package / "kernels").rglob("swiglu.*"):
        kernel.unlink() if damage == "gone" else kernel.write_bytes(kernel.read_bytes()[:-1] + b"?")
    told, *_ = call(tmp_path, drivers[12], package=package)
    assert told[:2] == (["ImageMissing", "KW-070"] if damage == "gone" else ["ImageCorrupt", "KW-071"]), told


def test_a_library_of_another_machine(tmp_path):
    package = copy_package(tmp_path)
    library = package / _files.LIBRARY
    content = bytearray(library.read_bytes())
    content[18] = 183 if content[18] == 62 else 62  # e_machine: aarch64 or x86-64
    library.write_bytes(content)
    told, *_ = call(tmp_path, package=package)
    assert told[:2] == ["LibraryMismatch", "KW-072"]
    library.unlink()
    assert call(tmp_path, package=package)[0][:2] == ["PackageIncomplete", "KW-070"]
    musl = made_up.Made(files={"/lib/ld-musl-x86_64.so.1": ""})
    library.write_bytes(content)
    assert call(tmp_path, made=musl, package=package)[0][:2] == ["LibraryMismatch", "KW-073"]


def test_a_doctor_that_is_broken_hides_no_refusal(tmp_path, drivers):
    package = copy_package(tmp_path)
    for file in (package / "doctor").rglob("*.py"):
        file.write_text("raise SystemError('broken')\n")
    told, *_ = call(tmp_path, drivers[12], package=package, KW_STANDIN_VERSION="12010")
    assert told[:2] == ["DriverTooOld", None]
    assert "12.1" in told[4]
