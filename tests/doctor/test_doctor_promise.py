# SPDX-License-Identifier: MIT
"""What the doctor was promised to name, item by item, and the page that says what it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernelwright import _files, _library, errors
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import all_checks, examine, package
from kernelwright.doctor.report import causes
from tests.doctor.made_up import WORKSTATION
from tests.doctor.test_doctor_checks import SICK

ROOT = Path(__file__).resolve().parents[2]

# Item by item: the code of the check, and what is in its evidence on the machine that shows it: one of SICK, or of OWN.
CHECKED = {
    "the compiler that is found is not the CUDA release that was asked for": (("KW-041", "11.8"), ("KW-082", "11.8")),
    "the host's GCC is newer than nvcc takes": (("KW-042", "GCC 15"),),
    "the trap of allowing it anyway": (("KW-043", "NVCC_PREPEND_FLAGS"),),
    "a fat binary that cannot be unpacked or loaded": (("KW-053", "Zstandard"),),
    "the configured binary is not found": (("KW-028", "cuda128"),),
    "a GPU too old or too new for the wheel": (("KW-074", "3.5"), ("KW-075", "compute_90")),
    "torch sees no CUDA though a GPU is there": (("KW-015", "torch"), ("KW-021", "2.8.0+cpu"), ("KW-087", "12.4")),
    "nvcc is not found": (("KW-040", "no bin/nvcc"),),
    "torch's list of GPUs lacks this one": (("KW-086", "12.0"),),
    "the C++ interface of torch and of what stands on it": (("KW-020", "_ZN3c10"),),
    "an import fails after a build": (("KW-020", "_ZN3c10"), ("KW-089", "a.so"), ("KW-094", "3.10")),
    "a build for aarch64 servers on Tegra's userland": (("KW-030", "sbsa"),),
    "Orin on the servers' stack of JetPack 7.2": (("KW-032", "39.2"),),
    "no kernel image": (("KW-010", "sm_80"), ("KW-074", "3.5"), ("KW-086", "12.0")),
    "PTX newer than the driver": (("KW-005", "PTX 9.0"), ("KW-076", "11.4")),
    "several libcudart in one process": (("KW-084", "libcudart.so.13"), ("KW-084", "nvidia-cuda-runtime 13.0.48")),
    "a RUNPATH that points nowhere": (("KW-083", "/builds/cuda/lib64"),),
    "torch for CPUs on a host with a GPU": (("KW-021", "2.8.0+cpu"),),
    "NumPy 1 and 2": (("KW-023", "NumPy 2.1.0"),),
    "the floor of glibc": (("KW-052", "2.41"), ("KW-052", "has 2.17"), ("KW-073", "musl")),
    "memory too small for the number of jobs": (("KW-060", "GiB each"),),
    "pip is about to replace NVIDIA's torch on a Jetson": (("KW-033", "PyPI"), ("KW-037", "2.5.0a0")),
    "the driver is there, and new enough": (("KW-001", "0000:01:00.0"), ("KW-003", "13.0"), ("KW-076", "11.4")),
    "which libcuda, and how many": (("KW-006", "/stubs"), ("KW-080", "470.82.01"), ("KW-004", "550.54.15")),
    "the driver starts and shows its GPUs": (("KW-009", "999"), ("KW-015", "1 GPU"), ("KW-123", "802")),
    "one torch in a directory": (("KW-129", "2.7.0"),),
    "the kernel module: not built for this kernel, not signed, another one there": (
        ("KW-102", "6.8.0-45"),
        ("KW-103", "6.8.0-45"),
        ("KW-104", "nouveau"),
    ),
    "the GPU's device files": (("KW-014", "/dev/nvidia0"),),
    "a library of JetPack is missing in a container": (("KW-035", "no libcuda.so.1"),),
    "torch does not import": (("KW-088", "libcudnn"),),
    "search paths: stubs, duplicates": (
        ("KW-006", "/stubs"),
        ("KW-031", "libcudart.so.11 "),
        ("KW-031", "libcublas.so.12"),
    ),
    "overrides in the environment": (
        ("KW-077", "KERNELWRIGHT_DISABLE=1"),
        ("KW-081", "which is a list"),
        ("KW-085", "124"),
    ),
    "nvcc, torch and driver among each other": (("KW-003", "13.0"), ("KW-041", "11.8"), ("KW-087", "12.4")),
    "ninja works": (("KW-047", "does not run"),),
    "a compiler for the host": (("KW-046", "no g++"),),
    "the size of /tmp, and the disk": (("KW-061", "GiB left"),),
    "a cache that may not be written": (("KW-108", "HOME is not set"),),
    "the tag of Python": (("KW-094", "3.10"),),
    "the hashes of our own files": (("KW-070", "manifest"), ("KW-071", "has sha256"), ("KW-072", "another processor")),
    "a container without the GPU": (("KW-002", "docker"),),
    "WSL": (("KW-008", "Windows"),),
    "a Nix shell without the host's driver": (("KW-007", "/usr/lib"),),
    "conda's override of the driver's level": (("KW-027", "12.9"),),
    "a stale cache of compiled code": (("KW-089", "a.so"),),
    "the power mode and the cold start of a Jetson": (("KW-038", "MODE_30W"),),
    "visible devices and MIG": (("KW-012", "hides every GPU"), ("KW-012", "'MIG-abc'"), ("KW-012", "twice")),
    "an image that is asked for by name": (("KW-078", "this wheel has"), ("KW-078", "does not run")),
    "the toolkit's headers and the C library's": (("KW-114", "cospi and sinpi"), ("KW-114", "declares rsqrt")),
    "a file for another processor": (("KW-036", "aarch64"),),
    "libraries of the right version": (("KW-050", "libcusparseLt"), ("KW-054", "libpng16")),
}


def _raising(error):
    def raises(*_):
        raise error

    return raises


class _Full:
    f_frsize, f_bavail = 4096, 10

    def __init__(self, path):
        pass


# What a description of a machine cannot say: rights, the disk, the package's own files.
OWN = {
    "KW-014": lambda patch: patch.setattr("os.access", lambda path, _: not str(path).endswith("nvidia0")),
    "KW-061": lambda patch: patch.setattr("os.statvfs", _Full),
    "KW-070": lambda patch: patch.setattr(_files, "locate", _raising(errors.PackageIncomplete("no manifest.json"))),
    "KW-071": lambda patch: patch.setattr(
        package, "_images", lambda: [{"code": "x", "path": _files.MANIFEST, "sha256": "0"}]
    ),
    "KW-072": lambda patch: patch.setattr(
        _library, "opened", _raising(errors.LibraryMismatch("it is for another processor"))
    ),
    "KW-075": lambda patch: patch.setattr(package, "served", lambda _: ("compute_90", "ptx")),
}


@pytest.mark.parametrize("item", CHECKED, ids=lambda item: item.replace(" ", "-")[:40])
def test_an_item_is_found_where_it_is(item, tmp_path, monkeypatch):
    for number, (code, word) in enumerate(CHECKED[item]):
        looks = [one for one in all_checks() if one.code == code]
        machine = next(
            (made for known, has, made in SICK if known == code and (word in has or has in word)), WORKSTATION
        )
        with monkeypatch.context() as patch:
            OWN.get(code, lambda _: None)(patch)
            found = [finding.evidence for finding in examine(machine.at(tmp_path / str(number)), looks)]
        assert any(word in evidence for evidence in found), (code, word, found)
        if code not in {"KW-074", "KW-075"}:  # of a GPU that this build was not made for
            assert examine(WORKSTATION.at(tmp_path / f"well{number}"), looks) == []


def test_there_are_enough():
    codes = {one.code for one in all_checks()}
    assert len(codes) >= 40
    assert codes == {code for several in CHECKED.values() for code, _ in several}
    assert len(all_causes()) > len(codes)


def test_the_page_is_what_the_records_say():
    written = (ROOT / "docs/causes.md").read_text(encoding="utf-8")
    assert written == "".join(f"{line}\n" for line in causes.page()), "python -m kernelwright causes > docs/causes.md"
    assert sorted(re.findall(r"^\| <a id=\"kw-\d{3}\"></a>(KW-\d{3}) \|", written, re.MULTILINE)) == sorted(
        all_causes()
    )


def test_the_command(capsys):
    assert causes.main(["kw-042", "KW-110"]) == 0
    printed = capsys.readouterr().out
    assert "KW-042  the host GCC is newer than this nvcc takes\n  why: " in printed
    assert "seen: check, warns; log\n" in printed
    assert printed.endswith("seen: x-ray\n")
    assert causes.main(["KW-999"]) == 2
    assert causes.main(["--help"]) == 0
    assert causes.main([]) == 0
    assert "# Causes" in capsys.readouterr().out
