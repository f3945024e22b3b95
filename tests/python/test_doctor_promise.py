# SPDX-License-Identifier: MIT
"""What the doctor was promised to name, item by item, and the page that says what it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import all_checks
from kernelwright.doctor.report import causes

ROOT = Path(__file__).resolve().parents[2]

# A check: it is looked for on the machine. A sign: it is read from a log.
CHECKED = {
    "the compiler that is found is not the CUDA release that was asked for": ("KW-041", "KW-082"),
    "the host's GCC is newer than nvcc takes": ("KW-042",),
    "the trap of allowing it anyway": ("KW-043",),
    "a fat binary that cannot be unpacked or loaded": ("KW-053",),
    "the configured binary is not found": ("KW-028",),
    "a GPU too old or too new for the wheel": ("KW-074", "KW-075"),
    "torch sees no CUDA though a GPU is there": ("KW-015", "KW-021", "KW-087"),
    "nvcc is not found": ("KW-040",),
    "torch's list of GPUs lacks this one": ("KW-086",),
    "the C++ interface of torch and of what stands on it": ("KW-020",),
    "an import fails after a build": ("KW-020", "KW-089", "KW-094"),
    "a build for aarch64 servers on Tegra's userland": ("KW-030",),
    "Orin on the servers' stack of JetPack 7.2": ("KW-032",),
    "no kernel image": ("KW-010", "KW-074", "KW-086"),
    "PTX newer than the driver": ("KW-005", "KW-076"),
    "several libcudart in one process": ("KW-084",),
    "a RUNPATH that points nowhere": ("KW-083",),
    "torch for CPUs on a host with a GPU": ("KW-021",),
    "NumPy 1 and 2": ("KW-023",),
    "the floor of glibc": ("KW-052", "KW-073"),
    "memory too small for the number of jobs": ("KW-060",),
    "pip is about to replace NVIDIA's torch on a Jetson": ("KW-033", "KW-037"),
    "the driver is there, and new enough": ("KW-001", "KW-003", "KW-076"),
    "which libcuda, and how many": ("KW-006", "KW-080", "KW-004"),
    "the driver starts and shows its GPUs": ("KW-009", "KW-015"),
    "the kernel module: not built for this kernel, not signed, another one there": ("KW-102", "KW-103", "KW-104"),
    "the GPU's device files": ("KW-014",),
    "a library of JetPack is missing in a container": ("KW-035",),
    "torch does not import": ("KW-088",),
    "search paths: stubs, duplicates": ("KW-006", "KW-031"),
    "overrides in the environment": ("KW-077", "KW-081", "KW-085"),
    "nvcc, torch and driver among each other": ("KW-003", "KW-041", "KW-087"),
    "ninja works": ("KW-047",),
    "a compiler for the host": ("KW-046",),
    "the size of /tmp, and the disk": ("KW-061",),
    "a cache that may not be written": ("KW-108",),
    "the tag of Python": ("KW-094",),
    "the hashes of our own files": ("KW-070", "KW-071", "KW-072"),
    "a container without the GPU": ("KW-002",),
    "WSL": ("KW-008",),
    "a Nix shell without the host's driver": ("KW-007",),
    "conda's override of the driver's level": ("KW-027",),
    "a stale cache of compiled code": ("KW-089",),
    "the power mode and the cold start of a Jetson": ("KW-038",),
    "visible devices and MIG": ("KW-012",),
    "an image that is asked for by name": ("KW-078",),
    "the toolkit's headers and the C library's": ("KW-114",),
    "a file for another processor": ("KW-036",),
    "libraries of the right version": ("KW-050", "KW-054"),
}


@pytest.mark.parametrize("item", CHECKED, ids=lambda item: item.replace(" ", "-")[:40])
def test_an_item_has_its_checks(item):
    assert set(CHECKED[item]) <= {one.code for one in all_checks()}


def test_there_are_enough():
    codes = {one.code for one in all_checks()}
    assert len(codes) >= 40
    assert codes == {code for several in CHECKED.values() for code in several}
    assert len(all_causes()) > len(codes)


def test_the_page_is_what_the_records_say():
    written = (ROOT / "docs/causes.md").read_text(encoding="utf-8")
    assert written == "".join(f"{line}\n" for line in causes.page()), "python -m kernelwright causes > docs/causes.md"
    assert sorted(re.findall(r"^\| (KW-\d{3}) \|", written, re.MULTILINE)) == sorted(all_causes())


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
