# SPDX-License-Identifier: MIT
"""The libraries of real wheels on boards that are not here: x86-64's natively, aarch64's under emulation, the GPU and
its driver by a stand-in. The right cubin is loaded, or the right error is given. No kernel runs; no board is claimed."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from emulation import emulator

from kernelwright_toolchain.exact import conditions, rebuild, wheel
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import settings, settled
from kernelwright_toolchain.targets import Target, load
from kernelwright_toolchain.wheel import elf, gates
from tests.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

TABLE = load()
TARGETS = [row for row in TABLE.targets.values() if row.release]
ELF_MACHINE = {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00"}


@dataclass(frozen=True)
class Board:
    """A library, a program that drives it, and a stand-in driver, for one target."""

    target: Target
    before: list[str]
    program: Path
    library: Path
    standin: Path

    def drive(self, scratch: Path, *words: str, **standin: str) -> tuple[dict[str, str], list[str], list[float]]:
        """What the program says, what the driver was told, and the numbers from the CPU."""
        told = scratch / "record"
        told.write_text("")
        extra = {f"KW_STANDIN_{name.upper()}": value for name, value in standin.items()}
        env = {**os.environ, "LD_LIBRARY_PATH": str(self.standin), "KW_STANDIN_RECORD": str(told), **extra}
        command = [*self.before, str(self.program), str(self.library), *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        pairs = [line.partition(": ") for line in done.stdout.splitlines()]
        numbers = [float(value) for name, _, value in pairs if name == "y"]
        loads = [line for line in told.read_text().splitlines() if line.startswith("cuLibraryLoadData")]
        return {name: value for name, _, value in pairs}, loads, numbers


def built(target: Target, keep: Path, **more: str) -> Path:
    """The target's default codes, one operator; or what `more` says."""
    asked = settings(settled(TABLE, {"provider": "pip", "target": target.name, "ops": "rms_norm", **more}))
    first, second = conditions.pair(jobs=2, quick=True)
    at = replace(first, jobs=second.jobs)
    with rebuild.scratch() as base:
        tools = rebuild.provision(ROOT, asked, at.python)
        copy = rebuild.lay_out(ROOT, base, tools, at, backwards=False)
        return Path(shutil.copy(rebuild.build(copy, asked, at, tools, base / "out", cached=True), keep))


@pytest.fixture(scope="module")
def wheel_of(tmp_path_factory) -> Callable[[str], Path]:
    """Each target's wheel, made once."""
    return cache(lambda name: built(TABLE.targets[name], tmp_path_factory.mktemp(f"wheel-{name}")))


def test_the_cross_built_wheel_has_the_same_cubins_and_its_own_library(wheel_of):
    images: dict[str, bytes] = {}
    for target in sorted(TABLE.targets.values(), key=lambda row: not row.release):
        path = wheel_of(target.name)
        assert path.name.endswith(f"-py3-none-{target.platform_tag}.whl")
        found = wheel.read(path).members
        needs = elf.parse(found[gates.LIBRARY])
        assert needs.glibc <= target.glibc, (target.name, needs)
        assert found[gates.LIBRARY][18:20] == ELF_MACHINE[target.machine], "it is of another processor"
        cubins = {name: data for name, data in found.items() if "/kernels/" in name}
        rows, codes = (
            json.loads(found[gates.MANIFEST])["images"],
            TABLE.default_codes(target, TABLE.toolkits[target.toolkit]),
        )
        assert {row["code"] for row in rows} == {code.name for code in codes}
        assert {f"kernelwright/{row['path']}" for row in rows} == cubins.keys()
        own = {row["code"] for row in rows if not row["served_by"]}
        assert {name.split("/")[2] for name in cubins} == own >= {code.name for code in codes if code.always}
        shared = images.keys() & cubins.keys()
        assert len(shared) > 2 or shared == cubins.keys() or not images, "a thin wheel has no code of its own"
        assert {name: images[name] for name in shared} == {name: cubins[name] for name in shared}
        images |= cubins


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: target.machine)
def board(request, wheel_of, tmp_path_factory) -> Board:
    target: Target = request.param
    before = emulator(target)
    place = tmp_path_factory.mktemp(target.machine)
    with zipfile.ZipFile(wheel_of(target.name)) as archive:
        archive.extractall(place)
    cache = str(ROOT / ".kw" / "cache" / "zig")
    env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    zig = [str(host.provision(TABLE).zig), "cc", "-target", f"{target.zig}.{target.glibc}", "-O1"]
    sources = ROOT / "tests/cpp"
    include = f"-I{place / 'kernelwright/include'}"
    (place / "standin").mkdir()
    for command in (
        [*zig, include, str(sources / "board/board.c"), "-o", str(place / "board"), "-ldl"],
        [*zig, "-shared", "-fPIC", str(sources / "standin/libcuda.c"), "-o", str(place / "standin/libcuda.so.1")],
    ):
        subprocess.run(command, check=True, env=env, capture_output=True)
    return Board(target, before, place / "board", place / "kernelwright/lib/libkernelwright.so", place / "standin")


def test_the_cpu_gives_the_same_numbers_on_every_processor(board, tmp_path):
    said, _, numbers = board.drive(tmp_path)
    assert said["on the CPU"] == "KW_OK"
    assert numbers == pytest.approx([2 * i / math.sqrt(4 * 25.5) for i in range(1, 9)], rel=2**-23)


def _expected(target: Target, capability: str) -> tuple[str, str]:
    """(code, what the stand-in writes of it): its own cubin, else the newest of the family, else PTX."""
    codes = TABLE.default_codes(target, TABLE.toolkits[target.toolkit])
    able = [code for code in codes if code.kind == "cubin" and capability in [str(c) for c in code.runs_on]]
    own = [code for code in able if str(code.runs_on[0]) == capability]
    code = (own or able or [code for code in codes if code.kind == "ptx"])[-1]
    return code.name, f"cuLibraryLoadData {code.kind} arch={code.number.rstrip('a')}"


@pytest.mark.parametrize(("capability", "version"), [("8.7", "12020"), ("9.0", "13000"), ("10.0", "12080")])
def test_the_right_image_is_loaded(board, tmp_path, capability, version):
    """An Orin with the driver of JetPack 6, a GH200 or H100, a B200, which the default wheel has PTX for."""
    said, loads, _ = board.drive(tmp_path, devices=capability, version=version)
    code, loaded = _expected(board.target, capability)
    assert (said["chosen"], said["on the GPU"]) == (code, "KW_OK"), said
    assert loads == [loaded]


def test_sm_80_can_be_forced_on_an_orin(board, tmp_path):
    """What the page on release wheels gives as a check for whoever has the board."""
    said, loads, _ = board.drive(tmp_path, "sm_80", devices="8.7")
    assert (said["forced"], said["chosen"], said["on the GPU"]) == ("KW_OK", "sm_80", "KW_OK")
    assert loads == ["cuLibraryLoadData cubin arch=80"]
    said, loads, _ = board.drive(tmp_path, "sm_90a", devices="8.7")
    assert (said["image"], said["on the GPU"], loads) == ("KW_ERROR_UNSUPPORTED", "KW_ERROR_UNSUPPORTED", [])


@pytest.mark.parametrize(
    ("standin", "expected", "words"),
    [
        ({"devices": "7.5"}, "KW_ERROR_NO_IMAGE", "7.5"),
        ({"version": "12010"}, "KW_ERROR_DRIVER_TOO_OLD", "12.1"),
        ({"version": "11080"}, "KW_ERROR_DRIVER_TOO_OLD", "11.8"),
        ({"devices": ""}, "KW_ERROR_NO_DEVICE", ""),
        ({"fails": "cuLibraryLoadData:2"}, "KW_ERROR_OUT_OF_MEMORY", "cuLibraryLoadData"),
    ],
)
def test_what_cannot_work_is_the_right_error(board, tmp_path, standin, expected, words):
    said, loads, numbers = board.drive(tmp_path, **{"devices": "8.7", **standin})
    assert said["on the GPU"] == expected, said
    assert words in said["words"]
    assert loads == []
    assert len(numbers) == 8  # the CPU works all the same


def test_without_a_driver_the_cpu_works_and_the_error_says_what_to_do(board, tmp_path):
    bare = replace(board, standin=tmp_path)
    said, _, numbers = bare.drive(tmp_path)
    assert said["on the GPU"] == "KW_ERROR_NO_DRIVER"
    assert "libcuda.so.1" in said["words"]
    assert len(numbers) == 8
