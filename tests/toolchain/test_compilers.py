# SPDX-License-Identifier: MIT
"""Two compilers' images of one source beside each other: what is the same, what is counted, what is named."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest
from device_support import Made, log_of

from kernelwright_toolchain import targets
from kernelwright_toolchain.commands import compilers as verb
from kernelwright_toolchain.device import Compiled, Job
from kernelwright_toolchain.device.image import Image, finish
from kernelwright_toolchain.exact import compilers, sass
from tests.tree import ROOT

CODE = targets.load().codes["sm_89"]
FIRST = ["MOV R1, c[0x0][0x28]", "@!P0 FFMA R0, R1, R1, R2", "{ IMAD R4, R1, R1, R2", "EXIT"]
SECOND = ["FFMA R5, R1, R1, R2", "LDS R7, [R8]", "EXIT"]


def image(registers: int, fill: bytes, stores: int = 0) -> Image:
    made = Made(registers=registers).bytes().replace(b"\x90" * 16, fill * 16)
    return finish(Job(ROOT, "op", CODE), Compiled(made, log_of("op_kernel", stores), 0.1, 1))


@pytest.fixture
def listings(monkeypatch):
    known: dict[bytes, list[str]] = {}
    monkeypatch.setattr(sass, "listing", lambda data: {"op_kernel": known[data]})
    return known


def test_the_same_machine_code_is_the_same_whatever_lies_beside_it(listings):
    one = image(40, b"\x90")
    other = image(40, b"\x90", stores=8)
    listings[one.data] = FIRST
    (pair,) = compilers.pairs(one, other)
    assert (pair.is_same, pair.computes_alike) == (True, True)


def test_other_machine_code_is_counted(listings):
    one, other = image(40, b"\x90"), image(44, b"\x91", stores=8)
    listings.update({one.data: FIRST, other.data: SECOND})
    cells, found = compilers.row(one, other)
    assert dict(zip(compilers.HEAD, cells, strict=True)) == {
        "operator": "op", "code": "sm_89", "kernels": "1", "same machine code": "0", "same arithmetic": "1",
        "instructions": "4 / 3", "more or fewer registers": "+1 -0", "bytes spilled": "0 / 8",
        "bytes of the image": f"{len(one.data):,} / {len(other.data):,}",
    }  # fmt: skip
    assert found[0].one.opcodes == {"MOV": 1, "FFMA": 1, "IMAD": 1, "EXIT": 1}
    assert compilers.furthest(found) == "op_kernel: 4 instructions, 40 registers / 3 instructions, 44 registers"


def test_another_sum_is_not_the_same_arithmetic(listings):
    one, other = image(40, b"\x90"), image(40, b"\x91")
    listings.update({one.data: FIRST, other.data: [*FIRST, "FADD R0, R0, R1"]})
    assert compilers.row(one, other)[0][3:5] == ["0", "0"]


def test_the_verb_compares_cubins_of_one_release_and_writes_the_table(listings, monkeypatch, tmp_path, capsys):
    one, other = image(40, b"\x90"), image(44, b"\x91")
    listings.update({one.data: FIRST, other.data: SECOND})
    text = SimpleNamespace(op="op", code="compute_90", spills={})
    asked = []

    def settled(_table, settings, **_how):
        asked.append(settings)
        return SimpleNamespace(provider=settings["provider"], toolkit=SimpleNamespace(name="cu130", release="13.0"))

    images = {"pip": (one, text), "system": (other, text)}
    monkeypatch.setattr(verb, "settled", settled)
    monkeypatch.setattr(verb, "compiled", lambda request, *_: SimpleNamespace(images=images[request.provider]))
    given = argparse.Namespace(archs="89", ops=None, table=tmp_path / "table.md", jobs=None)
    assert verb.run(given) == 0
    assert asked == [
        {"archs": "89", "provider": "system"}, {"archs": "89", "provider": "pip", "toolkit": "cu130"},
    ]  # fmt: skip
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| op | sm_89 | 1 | 0 | 1 | 4 / 3 | +1 -0 |")
    assert "CUDA 13.0, NVRTC / nvcc" in capsys.readouterr().out
