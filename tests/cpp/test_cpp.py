# SPDX-License-Identifier: MIT
"""The C++ tests through CMake and ctest, with zig and (--long) the system's compiler, and what the built library asks and gives.

One GPU architecture is compiled: the host code is the same for any.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/toolchain"))  # for emulation

from emulation import emulator

from kernelwright_toolchain.abi import header_directories
from kernelwright_toolchain.elf import Elf, View
from kernelwright_toolchain.errors import ToolMissing
from kernelwright_toolchain.request import find_ops
from kernelwright_toolchain.targets import load

ARCH = "90"
ALLOWED = re.compile(r"lib(c|m|dl|pthread)\.so\.\d+|ld-linux-(x86-64|aarch64)\.so\.\d+")
pytestmark = pytest.mark.slow


def run(*command: str | Path, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("CFLAGS", "CXXFLAGS", "LDFLAGS")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=environment,
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )


def done(*command: str | Path) -> str:
    result = run(*command)
    assert result.returncode == 0, f"{command}\n{result.stdout[-8000:]}\n{result.stderr[-8000:]}"
    return result.stdout


def zig() -> str | None:
    given = os.environ.get("KW_ZIG") or shutil.which("zig")
    if given is None and (spec := importlib.util.find_spec("ziglang")) and spec.submodule_search_locations:
        given = str(Path(next(iter(spec.submodule_search_locations))) / "zig")
    return given if given and Path(given).is_file() else None


def compiler_options(name: str) -> list[str]:
    if name == "system":
        if not (shutil.which("c++") and shutil.which("cc")):
            pytest.skip("no cc and c++ on PATH")
        return ["-UCMAKE_TOOLCHAIN_FILE"]
    program = zig()
    if program is None:
        pytest.skip("no zig: neither KW_ZIG, nor on PATH, nor the module ziglang")
    target = next(row for row in load().targets.values() if row.machine == platform.machine() and row.release)
    floor = f"{target.zig}.{target.glibc}"
    return [f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/zig.cmake", f"-DKW_ZIG={program}", f"-DKW_ZIG_TARGET={floor}"]


@pytest.fixture(scope="module", params=["zig", pytest.param("system", marks=pytest.mark.long)])
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake on PATH")
    options = compiler_options(request.param)
    where = tmp_path_factory.mktemp(f"cpp-{request.param}")
    device = run(
        sys.executable, "-m", "toolchain", "device", "--out", where / "probe", "--archs", ARCH, "--provider", "auto"
    )
    if device.returncode == ToolMissing.exit_code:
        pytest.skip(f"no device compiler: {device.stderr.strip()}")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    tree = where / "build"
    done("cmake", "-S", ROOT, "-B", tree, *generator, *options, f"-DKW_ARCHS={ARCH}", f"-DKW_PYTHON={sys.executable}")
    done("cmake", "--build", tree, "-j", "2")
    return tree


def test_ctest(build: Path) -> None:
    said = done("ctest", "--test-dir", build, "-j", "2", "--output-on-failure", "--no-tests=error")
    ran = re.search(r"100% tests passed, 0 tests failed out of (\d+)", said)
    assert ran, said[-4000:]
    declared = sum(
        len(re.findall(r"(?m)^CASE\(", path.read_text(encoding="utf-8")))
        for folder in ("cpp/unit", "cpp/loader", "ops/*/unit")
        for path in (ROOT / "tests").glob(f"{folder}/*.cpp")
    )
    assert declared > 40
    assert int(ran[1]) > declared, "the consumer and the CPU tests come on top of the cases"


def objects(tree: Path) -> dict[Path, tuple[set[str], set[str]]]:
    """The library's objects: the names that each has for others, and those that it wants of them."""
    found = {}
    for path in sorted(tree.glob("CMakeFiles/k*.dir/**/*.o")):
        symbols = [
            symbol for symbol in Elf(View(path.read_bytes())).symbols(".symtab") if symbol.name and symbol.binding
        ]
        has = {symbol.name for symbol in symbols if symbol.defined}
        found[path] = has, {symbol.name for symbol in symbols} - has
    return found


def kept(path: Path, op: str) -> bool:
    """Whether CMake compiles this file where an operator is all that was asked for (cmake/host.cmake)."""
    place = re.search(r"/csrc/ops/(\w+)/.*?(\w+)\.cpp\.o$", path.as_posix())
    if place is None or place[2] == op:
        return True
    return (ROOT / f"csrc/ops/{place[1]}/api/{op}.h").exists() and (place[2] not in find_ops() or place[2] == place[1])


def test_each_operator_links_alone(build: Path) -> None:
    """What operators of a family share lies in no file with another's name, which a build of one leaves out."""
    every = objects(build)
    assert any(has for has, _ in every.values())
    for op in find_ops():
        here = [path for path in every if kept(path, op)]
        has = set().union(*(every[path][0] for path in here))
        left = {name: path for path in every.keys() - {*here} for name in every[path][0]}
        wants = {name: path for path in here for name in every[path][1] - has if name in left}
        assert not wants, f"{op} alone: " + ", ".join(f"{a.name} wants {n} of {left[n].name}" for n, a in wants.items())


def numbers(tree: Path, *before: str) -> dict[str, list[str]]:
    """What each function of each operator gives on the CPU, as the program of that name prints it."""
    said = done(*before, tree / "tests/cpp/test_cpu_numbers").splitlines()
    lines = [line.partition(": ") for line in said if not line.startswith("cpu: ")]
    return {f"{number} {name}": values.split() for number, (name, _, values) in enumerate(lines)}


def apart(name: str, one: Sequence[str], other: Sequence[str]) -> list[tuple[str, str, str]]:
    """What two processors may not both say: codes are the same; of numbers the order of sums shows, in float32, and
    then a rounding to the result's type may go the other way."""
    if name.endswith(" codes"):
        return [(name, a, b) for a, b in zip(one, other, strict=True) if a != b]
    step = {"float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}[name.rpartition(" ")[2]]
    pairs = [(float(a), float(b)) for a, b in zip(one, other, strict=True)]
    sums = 1e-6 * max(abs(a) for a, _ in pairs)
    return [(name, f"{a}", f"{b}") for a, b in pairs if not abs(a - b) <= sums + step * abs(a)]


@pytest.mark.long
@pytest.mark.parametrize("build", ["zig"], indirect=True)
def test_ctest_of_the_other_processor_under_emulation(build: Path, tmp_path: Path) -> None:
    """The same tests, cross-built as its wheel's library is: numbers, threads, loader. Speed means nothing there.

    And every operator gives the numbers that it gives here.
    """
    program = zig()
    if program is None or shutil.which("cmake") is None:
        pytest.skip("no zig or no cmake")
    target = next(row for row in load().targets.values() if row.machine != platform.machine() and row.release)
    options = [
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/zig.cmake", f"-DKW_ZIG={program}", f"-DKW_TARGET={target.name}",
        f"-DKW_ZIG_TARGET={target.zig}.{target.glibc}", f"-DCMAKE_CROSSCOMPILING_EMULATOR={';'.join(emulator(target))}",
        "-DKW_PROVIDER=auto", f"-DKW_ARCHS={ARCH}", f"-DKW_PYTHON={sys.executable}",
    ]  # fmt: skip
    configured = run("cmake", "-S", ROOT, "-B", tmp_path, *(["-G", "Ninja"] if shutil.which("ninja") else []), *options)
    assert configured.returncode == 0, configured.stdout + configured.stderr
    done("cmake", "--build", tmp_path, "-j", "2")
    said = done("ctest", "--test-dir", tmp_path, "-j", "2", "--output-on-failure", "--no-tests=error")
    assert re.search(r"100% tests passed, 0 tests failed out of ", said), said[-4000:]
    here, there = numbers(build), numbers(tmp_path, *emulator(target))
    assert {name.split()[1].partition(".")[0] for name in here} == set(find_ops())
    assert here.keys() == there.keys()
    assert [pair for name, values in here.items() for pair in apart(name, values, there[name])] == []


@dataclass(frozen=True)
class Dynamic:
    """What a shared library's dynamic section says."""

    needed: tuple[str, ...]
    exported: tuple[str, ...]
    versions: tuple[str, ...]  # such as GLIBC_2.17, of what it asks
    tags: dict[int, int]


def dynamic(data: bytes) -> Dynamic:
    """Read from section headers: .dynamic (6) and .dynsym (11), each linked to its strings."""
    start, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]

    def text(section: int, at: int) -> str:
        at += sections[section][4]
        return data[at : data.index(b"\0", at)].decode()

    needed, tags, exported = [], {}, []
    versions: set[str] = set()
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        body = data[offset : offset + length] if kind != 8 else b""
        if kind == 6:
            for tag, value in struct.iter_unpack("<qQ", body):
                tags[tag] = value
                if tag == 1:
                    needed.append(text(link, value))
        elif kind == 11:
            for name, info, _, home, _, _ in struct.iter_unpack("<IBBHQQ", body):
                if home != 0 and info >> 4 != 0:  # defined here, not local
                    exported.append(text(link, name))
        elif kind == 3:
            versions.update(re.findall(r"GLIBC_[\d.]+", body.decode("latin-1")))
    return Dynamic(tuple(needed), tuple(exported), tuple(versions), tags)


@pytest.fixture(scope="module")
def library(build: Path) -> bytes:
    return (build / "kernelwright/lib/libkernelwright.so").read_bytes()


def test_needs_only_glibc(library: bytes) -> None:
    needed = dynamic(library).needed
    assert needed
    assert [name for name in needed if not ALLOWED.fullmatch(name)] == []


def test_exports_the_abi_and_nothing_else(library: bytes) -> None:
    exported = set(dynamic(library).exported)
    declared = set()
    for header in (path for folder in header_directories(ROOT) for path in folder.glob("*.h")):
        declared |= set(re.findall(r"(?m)^KW_API [^;(]*?\b(kw_\w+)\(", header.read_text(encoding="utf-8")))
    assert {"kw_version", "kw_rms_norm", "kw_last_error"} <= declared
    assert exported == declared


def test_binds_at_load_and_has_no_search_path(library: bytes) -> None:
    tags = dynamic(library).tags
    flags_1 = tags[0x6FFFFFFB]
    assert flags_1 & 0x1, "not linked with -z now"
    assert flags_1 & 0x8, "not linked with -z nodelete"
    assert not {15, 29} & set(tags), "it has an RPATH or a RUNPATH"


def test_holds_no_path_of_this_machine(library: bytes, build: Path) -> None:
    for path in (ROOT, build, Path.home()):
        assert str(path).encode() not in library
    assert b".note.gnu.build-id" not in library
    assert not re.search(rb"csrc/[\w/]+\.(cpp|h)", library)


def test_keeps_the_floor(library: bytes, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["build"] != "zig":
        pytest.skip("only zig is told a glibc floor; a system's compiler takes the system's")
    target = next(row for row in load().targets.values() if row.machine == platform.machine() and row.release)
    asked = [tuple(int(part) for part in name[6:].split(".")) for name in dynamic(library).versions]
    assert asked
    assert max(asked) <= target.glibc.parts
