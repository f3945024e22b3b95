# SPDX-License-Identifier: MIT
"""Planted differences, made by nvcc itself: each is named with its file, its section and its cure."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelwright_toolchain.classic import differ, run, toolkit
from kernelwright_toolchain.errors import ProvisionError, RequestError
from kernelwright_toolchain.providers import machine_of
from kernelwright_toolchain.targets import load

# Without an external symbol, and with a kernel that has lines to be told.
SOURCE = """static __global__ void nothing(int *p) { *p = threadIdx.x; }
namespace { struct Warm { Warm() { cudaFuncAttributes a; cudaFuncGetAttributes(&a, nothing); } } warm; }
"""
APART = ["unshare", "--pid", "--mount", "--fork", "--kill-child"]  # a process number that is always the same


@dataclass(frozen=True)
class Shop:
    """Compiles the same file, but for one thing."""

    nvcc: Path
    place: Path

    def wheel(self, name: str, folder: str = "here", *options: str, date: int = 10**9, zone: str = "UTC",
              apart: bool = True) -> Path:  # fmt: skip
        where = self.place / folder
        where.mkdir(exist_ok=True)
        source = where / "t.cu"
        source.write_text(SOURCE)
        os.utime(source, (date, date))
        command = [self.nvcc, "-arch=sm_90", "-shared", "-Xcompiler", "-fPIC", *options, "t.cu", "-o", "t.so"]
        env = {**os.environ, "TZ": zone}
        subprocess.run([*(APART if apart else []), *command], cwd=where, env=env, check=True, capture_output=True)
        return packed(self.place / f"{name}.whl", {"a/t.so": (where / "t.so").read_bytes()})


def packed(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Shop:
    if os.geteuid() != 0:
        pytest.skip("only root may make namespaces without becoming another user in them")
    if why := run.refusal():
        pytest.skip(f"no namespaces here: {why}")
    table = load()
    try:
        home = toolkit.from_pypi(table.toolkits["cu130"], machine_of(table)).path
    except ProvisionError as error:
        pytest.skip(f"no nvcc from PyPI: {str(error).splitlines()[-1]}")
    return Shop(home / "bin" / "nvcc", tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def base(shop: Shop) -> Path:
    return shop.wheel("base")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "section", "words"),
    [
        ({"folder": "elsewhere"}, ".strtab", "hash of the source's path; build it by `kwt build`"),
        ({"apart": False}, ".strtab", "process number of nvcc; build it by `kwt build`"),
        ({"date": 12 * 10**8}, ".strtab", "date of the source, or time zone; build it by `kwt build`"),
        ({"zone": "Asia/Tokyo"}, ".strtab", "date of the source, or time zone; build it by `kwt build`"),
        (
            {"options": ["-lineinfo"]},
            ".nv_fatbin",
            "line tables (-lineinfo or -G) in one alone; build both with the same",
        ),
        ({"options": ["-Xlinker", "-rpath=/opt/cuda/lib64"]}, ".dynstr", "RUNPATH or what is needed; give it $ORIGIN"),
        (
            {"options": ["-arch=sm_80"]},
            ".nv_fatbin",
            "codes sm_90 compute_90 and sm_80 compute_80; build both for the same",
        ),
    ],
    ids=["path", "process", "date", "zone", "lines", "runpath", "codes"],
)
@pytest.mark.long
def test_what_differs_is_named(shop: Shop, base: Path, planted, section, words):
    options = planted.pop("options", [])
    other = shop.wheel("other", planted.pop("folder", "here"), *options, **planted)
    found = differ.wheels(base, other)
    assert found, "nothing was found to differ"
    assert found[0].startswith(f"a/t.so: {section}: {words}"), found


@pytest.mark.slow
def test_the_same_circumstances_give_the_same_bytes(shop: Shop, base: Path):
    assert differ.wheels(base, shop.wheel("again")) == []


def stated(path: Path, members: dict[str, bytes] | None = None, **recipe: object) -> Path:
    said = json.dumps({"predicate": {"toolchain": "0.1.0", "inputs": {}, **recipe}}).encode()
    return packed(path, {**(members or {}), "a-1.dist-info/statement.json": said})


def test_another_toolkit_and_another_host_compiler_are_named_by_the_recipe(tmp_path):
    one = stated(tmp_path / "1.whl", build={"toolkit": "cu130"}, host_compiler="c++ (Debian) 12.2.0")
    other = stated(tmp_path / "2.whl", build={"toolkit": "cu124"}, host_compiler="c++ (Debian) 14.2.0")
    assert differ.wheels(one, other) == [
        "recipe: build: {'toolkit': 'cu130'} and {'toolkit': 'cu124'}; build both with one",
        "recipe: host compiler: c++ (Debian) 12.2.0 and c++ (Debian) 14.2.0; build both with one",
    ]


def test_members_and_packing_are_named(tmp_path):
    one = stated(tmp_path / "1.whl", {"a/__init__.py": b"1\n", "a/only.py": b""})
    other = stated(tmp_path / "2.whl", {"a/__init__.py": b"2\n"})
    assert differ.wheels(one, other) == ["a/__init__.py: its text", "a/only.py: in one wheel alone"]
    again = stated(tmp_path / "3.whl", {"a/only.py": b"", "a/__init__.py": b"1\n"})
    assert differ.wheels(one, again) == ["the order, dates or compression of the members"]
    assert differ.wheels(one, one) == []


def test_sources_that_are_others_are_told_first():
    told = list(differ.inputs({"a.cu": "1", "b.cu": "2"}, {"a.cu": "1", "b.cu": "3"}))
    assert told == ["b.cu: source: the wheel was made from another one; check that commit out"]


def test_a_wheel_of_another_maker_is_refused(tmp_path):
    with pytest.raises(RequestError, match="kwt did not make it"):
        differ.recipe(packed(tmp_path / "a.whl", {"a.py": b""}))
    (tmp_path / "no.whl").write_text("no zip")
    with pytest.raises(RequestError, match="cannot be read"):
        differ.recipe(tmp_path / "no.whl")
