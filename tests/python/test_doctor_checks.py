# SPDX-License-Identifier: MIT
"""Each check of the doctor, seen finding its cause on a made-up machine and silent on one where all is well."""

from __future__ import annotations

import re

import pytest

from kernelwright import _files
from kernelwright.doctor._check import Grade
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import all_checks, examine, package
from kernelwright.doctor.machine import driver, jetson, python, system
from tests.python import made_up
from tests.python.made_up import H100, NO_DRIVER, ORIN, WORKSTATION, libcuda, module, torch

NVCC = "/usr/local/cuda/bin/nvcc"
OLD = "/usr/local/cuda-11.8/bin/nvcc"


def nvcc(release, place=NVCC):
    return {"files": {place: "#!"}, "says": {place: f"Cuda compilation tools, release {release}, V{release}.1"}}


BARE = WORKSTATION.but(
    files=dict.fromkeys((*libcuda()["files"], *module(), "/dev/nvidia0")), links={}, driver=NO_DRIVER
)
BARE = made_up.replace(BARE, links={})

# code, what has to be in the evidence, the machine
SICK = [
    ("KW-001", "0000:01:00.0", BARE),
    ("KW-002", "docker", BARE.but(files={"/.dockerenv": "", **module()})),
    ("KW-004", "550.54.15", WORKSTATION.but(files=module("550.54.15"))),
    ("KW-006", "/stubs", WORKSTATION.but(variables={"LD_LIBRARY_PATH": "/usr/lib:/usr/local/cuda/lib64/stubs"})),
    ("KW-007", "/usr/lib", WORKSTATION.but(variables={"IN_NIX_SHELL": "impure"}, driver=NO_DRIVER)),
    ("KW-008", "Windows", BARE.but(kernel="5.15.146.1-microsoft-standard-WSL2")),
    ("KW-009", "999", WORKSTATION.but(driver={"library": "x", "level": 13000, "init": 999, "gpus": []})),
    ("KW-009", "signal 11", WORKSTATION.but(driver={"error": "the process was ended by signal 11", "crashed": True})),
    ("KW-012", "hides every GPU", WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": ""})),
    ("KW-012", "'gpu0'", WORKSTATION.but(variables={"CUDA_VISIBLE_DEVICES": "0,gpu0"})),
    ("KW-021", "2.8.0+cpu", WORKSTATION.but(files=torch("2.8.0+cpu", None))),
    ("KW-023", "NumPy 2.1.0", WORKSTATION.but(files={**torch("2.2.0", "12.1"), **made_up.package("numpy", "2.1.0")})),
    ("KW-030", "nvidia-cublas-cu12", ORIN.but(files=made_up.package("nvidia_cublas_cu12", "12.6.4"))),
    ("KW-032", "38.2", ORIN.but(files={
        "/usr/lib/aarch64-linux-gnu/nvidia/libnvrm_gpu.so": None, "/usr/lib/aarch64-linux-gnu/libcuda.so.1": b"x",
        "/etc/nv_tegra_release": "# R38 (release), REVISION: 2.0, GCID: 1, BOARD: generic\n"})),
    ("KW-033", "PyPI", ORIN.but(files=torch("2.7.1", "12.6"))),
    ("KW-041", "11.8", WORKSTATION.but(**nvcc("11.8"))),
    ("KW-060", "GiB each", WORKSTATION.but(files={"/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\n", NVCC: "#!"})),
    ("KW-060", "GiB each", WORKSTATION.but(files={"/sys/fs/cgroup/memory.max": "4294967296\n", NVCC: "#!"})),
    ("KW-073", "musl", WORKSTATION.but(files={"/lib/ld-musl-x86_64.so.1": b""})),
    ("KW-074", "3.5", WORKSTATION.but(driver={"init": 0, "level": 13000, "gpus": [{"name": "K40", "capability": 35}]})),
    ("KW-076", "11.4", WORKSTATION.but(driver={"init": 0, "level": 11040, "gpus": [H100]})),
    ("KW-077", "KERNELWRIGHT_DISABLE=1", WORKSTATION.but(variables={"KERNELWRIGHT_DISABLE": "1"})),
    ("KW-080", "470.82.01", WORKSTATION.but(**libcuda("470.82.01", "/usr/lib64"))),
    ("KW-081", "which is a list", WORKSTATION.but(variables={"CUDA_HOME": ":/usr/local/cuda"})),
    ("KW-081", "no bin/nvcc", WORKSTATION.but(variables={"CUDA_HOME": "/opt/cuda"})),
    ("KW-082", "11.8", WORKSTATION.but(
        files={NVCC: "#!", OLD: "#!"}, says={**nvcc("12.8")["says"], **nvcc("11.8", OLD)["says"]},
        variables={"CUDA_HOME": "/usr/local/cuda-11.8", "PATH": "/usr/local/cuda/bin"})),
    ("KW-084", "libcudart.so.13", WORKSTATION.but(torch={"libraries": ["/a/libcudart.so.12", "/b/libcudart.so.13"], "archs": []})),
    ("KW-085", "124", WORKSTATION.but(variables={"BNB_CUDA_VERSION": "124"})),
    ("KW-086", "12.0", WORKSTATION.but(driver={"init": 0, "level": 13000, "gpus": [{"name": "RTX 5080", "capability": 120}]})),
    ("KW-087", "12.4", WORKSTATION.but(files=torch("2.9.0+cu130", "13.0"), driver={"init": 0, "level": 12040, "gpus": [H100]})),
    ("KW-088", "libcudnn", WORKSTATION.but(torch={"error": "ImportError: libcudnn.so.9: cannot open shared object file"})),
]  # fmt: skip


@pytest.mark.parametrize(("code", "evidence", "machine"), SICK, ids=[f"{code}-{word}" for code, word, _ in SICK])
def test_a_sick_machine(tmp_path, code, evidence, machine):
    found = [finding for finding in examine(machine.at(tmp_path)) if finding.code == code]
    assert found, examine(machine.at(tmp_path / "again"))
    assert evidence in found[0].evidence


@pytest.mark.parametrize("machine", [WORKSTATION, ORIN], ids=["workstation", "orin"])
def test_a_healthy_machine(tmp_path, machine):
    served = {90: {"linux-x86_64"}, 87: {"linux-aarch64", "l4t-r36"}}
    capability = machine.driver["gpus"][0]["capability"]
    here = package.served(capability) is not None
    findings = [
        finding for finding in examine(machine.at(tmp_path)) if here or finding.code not in {"KW-074", "KW-075"}
    ]
    assert served
    assert findings == []


def test_a_machine_without_anything(tmp_path):
    """Of an empty root no check fails, and only what does not depend on the machine can be found."""
    findings = examine(made_up.Made().at(tmp_path))
    assert [f for f in findings if "the check itself failed" in f.evidence] == []
    assert findings == []


def test_every_check_has_its_cause_and_was_seen_finding_it():
    causes = all_causes()
    codes = {one.code for one in all_checks()}
    assert codes <= set(causes)
    # The package's files are damaged in tests of their own; device files and disks are this machine's.
    assert codes - {code for code, _, _ in SICK} == {"KW-014", "KW-061", "KW-070", "KW-071", "KW-075"}


def test_every_cause_can_be_seen():
    """In a log, on a machine, or both; those from KW-110 on in a wheel, where tests/python/test_xray.py sees them."""
    checked = {one.code for one in all_checks()}
    assert [c.code for c in all_causes().values() if not c.signs and c.code not in checked] == [
        "KW-072",
        "KW-083",
        "KW-110",
        "KW-111",
        "KW-112",
    ]


def test_device_files(tmp_path, monkeypatch):
    machine = WORKSTATION.at(tmp_path)
    monkeypatch.setattr("os.access", lambda path, _: not str(path).endswith("nvidia0"))
    found = {finding.code: finding for finding in examine(machine)}
    assert "/dev/nvidia0" in found["KW-014"].evidence
    assert found["KW-014"].grade is Grade.FAILS


def test_a_full_disk(tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize = 10, 4096

    monkeypatch.setattr("os.statvfs", lambda _: Full)
    found = {finding.code: finding.evidence for finding in examine(WORKSTATION.at(tmp_path))}
    assert found["KW-061"].endswith(" has 0.0 GiB left")


def test_what_a_gpu_gets(monkeypatch):
    """The same choice as the library's, told without it: own code first, then the family's, then PTX."""
    codes = _files.read(_files.TARGETS)["codes"]
    monkeypatch.setattr(
        package, "_images", lambda: [{"code": name} for name in ("sm_80", "sm_86", "sm_90a", "compute_90")]
    )
    assert package.served(86) == ("sm_86", "cubin")
    assert package.served(89) == ("sm_86", "cubin")
    assert package.served(87) == ("sm_80", "cubin")
    assert package.served(90) == ("sm_90a", "cubin")
    assert package.served(100) == ("compute_90", "ptx")
    assert package.served(75) is None
    assert "sm_75" in codes


def test_the_choice_is_the_librarys():
    import ctypes

    from kernelwright import _library, errors

    library, image = _library.load(), ctypes.c_char_p()
    op = min(library.ops)
    for capability in (35, 70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121, 130):
        try:
            library.call("kw_image_for", op.encode(), capability, ctypes.byref(image))
        except errors.NoImage:
            assert package.served(capability) is None, capability
        else:
            assert package.served(capability)[0] == image.value.decode(), capability


def test_a_check_that_fails_is_told(tmp_path, monkeypatch):
    def broken(machine):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(driver, "gpus_on_the_bus", broken)
    found = [finding for finding in examine(WORKSTATION.at(tmp_path)) if "itself failed" in finding.evidence]
    assert found
    assert all(finding.grade is Grade.WARNS for finding in found)


def test_facts_of_the_orin(tmp_path):
    machine = ORIN.at(tmp_path)
    assert jetson.l4t(machine) == (36, "4.3")
    assert jetson.jetpack(machine) == "6.2"
    assert jetson.model(machine) == "NVIDIA Jetson AGX Orin Developer Kit"
    assert jetson.userland(machine) == "tegra"
    assert python.torch(machine).origin == "NVIDIA"


def test_facts_of_the_workstation(tmp_path):
    machine = WORKSTATION.at(tmp_path)
    assert jetson.model(machine) is None
    assert jetson.userland(machine) is None
    assert driver.kernel_module(machine) == "580.65.06"
    assert system.distribution(machine) == "Ubuntu 24.04 LTS"
    assert system.processors(machine) == 8
    assert system.memory(machine) == (65536000 * 1024, 60000000 * 1024)
    assert python.torch(machine).cuda == "12.8"
    assert re.fullmatch(r"\d+\.\d+\.\d+", driver.of_library(machine, driver.libraries(machine)[0]))
