# SPDX-License-Identifier: MIT
"""Products by warpgroups in machine code: instructions as nvdisasm 13.5 shows them, of kernels by NVRTC 12.2."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from kernelwright_toolchain.building import sass
from kernelwright_toolchain.cubin import Cubin
from kernelwright_toolchain.cubin.code import multiplies, read_code
from kernelwright_toolchain.errors import GateError

INSTRUCTIONS = {
    "HGMMA": (0x03E000000C1879F0, 0x000FE20008700818),
    "IGMMA": (0x0660000498187DF1, 0x000FE2000C0410FF),
    "QGMMA": (0x03E0000498187DF3, 0x000FE2000C0008FF),
    "WAIT": (0x00008000000079C5, 0x000FD80000010100),
    "arrive": (0x00000000000079C5, 0x000FE20000000000),
    "EX2": (0x0000001500057308, 0x000EA20000000800),
    "reciprocal": (0x0000000400047308, 0x008EE40000001000),
    "LDL": (0x0000000001027983, 0x000EA20000100800),
    "STL": (0x0000001401007387, 0x0003E20000100800),
}


def code(*names):
    return b"".join(struct.pack("<QQ", *INSTRUCTIONS[name]) for name in names)


def test_products_waits_and_exponentials_in_order():
    found = read_code(code("arrive", "HGMMA", "HGMMA", "EX2", "reciprocal", "EX2", "WAIT", "QGMMA", "WAIT", "WAIT"))
    assert str(found) == "HGMMA*2 EX2*2 WAIT QGMMA WAIT*2"
    assert (found.bytes, found.local, multiplies(found)) == (160, 0, True)


def test_a_kernel_without_products():
    found = read_code(code("EX2", "LDL", "STL", "reciprocal"))
    assert (str(found), found.local, multiplies(found)) == ("EX2", 2, False)


@pytest.fixture
def image_of(monkeypatch):
    """An image for a GPU with wgmma whose one kernel has these instructions."""

    def made(*names, code_name="sm_90a"):
        monkeypatch.setattr(sass, "code_of", lambda data, _kernel: read_code(data))
        kernel = SimpleNamespace(name="op_k", registers=168, shared=0, stack=0)
        facts = Cubin("90a", (kernel,), ())
        spills = {"op_k": SimpleNamespace(stores=0, loads=0)}
        return SimpleNamespace(op="op", code=code_name, data=code(*names), facts=facts, spills=spills)

    return made


def test_the_cell_has_them(image_of):
    cells = sass.cells([image_of("HGMMA", "HGMMA", "WAIT")])
    assert cells == {("op", "op_k", "sm_90a"): "168 text 48 HGMMA*2 WAIT"}


def test_other_kernels_and_codes_have_registers_alone(image_of):
    assert list(sass.cells([image_of("EX2", "LDL")]).values()) == ["168"]
    assert list(sass.cells([image_of("HGMMA", code_name="sm_80")]).values()) == ["168"]


def test_local_memory_beside_products_fails_the_build(image_of):
    with pytest.raises(GateError, match="op_k for sm_90a: 2 loads and stores of local memory in a kernel"):
        sass.cells([image_of("HGMMA", "LDL", "STL", "WAIT")])
