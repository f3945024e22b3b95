# SPDX-License-Identifier: MIT
"""The planted faults are still of this tree; `python -m tests.planted.run` sees each found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted.run import ROOT, faults

FAULTS = list(faults())


def test_there_are_enough_of_each_kind():
    assert len(FAULTS) >= 25
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {fault.where for fault in FAULTS} == {"package", "tree", "build"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_a_fault_can_be_planted(fault):
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.find) == 1
    assert fault.planted(text) != text
    paths = [name for name in fault.tests if name.startswith("tests/")]
    assert paths
    assert all(Path(ROOT / name.partition("::")[0]).exists() for name in paths)
