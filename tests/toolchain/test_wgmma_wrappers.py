# SPDX-License-Identifier: MIT
"""The wrappers of wgmma are what their generator gives, and the emulator knows each of their shapes."""

from __future__ import annotations

import re

from kernelwright_toolchain.device import wgmma
from tests.tree import ROOT

EMULATED = ROOT / "tests/emulator/device/ptx_wgmma.h"


def test_the_files_are_what_the_generator_gives():
    for name, text in wgmma.files().items():
        found = (ROOT / wgmma.FOLDER / name).read_text(encoding="utf-8")
        assert found == text, (
            f"{wgmma.FOLDER / name}: make it anew with `python -m kernelwright_toolchain.device.wgmma`"
        )


def test_there_are_no_others():
    found = {path.name for path in (ROOT / wgmma.FOLDER).glob("wgmma_*.cuh")}
    assert found == set(wgmma.files())


def test_each_has_every_width_once():
    for of in wgmma.TYPES:
        for shared in (True, False):
            shapes = re.findall(r"\.m64n(\d+)k(\d+)\.", wgmma.text(of, shared=shared))
            assert shapes == [(str(columns), str(of.depth)) for columns in wgmma.COLUMNS]


def test_the_emulator_knows_every_width():
    known = re.findall(r"^PTX_WGMMA\((\d+)\)", EMULATED.read_text(encoding="utf-8"), re.MULTILINE)
    assert known == [str(columns) for columns in wgmma.COLUMNS]
