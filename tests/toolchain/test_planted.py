# SPDX-License-Identifier: MIT
"""The planted faults are still of this tree; `python -m tests.planted.run` sees each found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted.run import ROOT, Answer, faults, recorded

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


def test_of_each_fault_the_test_that_found_it_is_recorded():
    found = recorded()
    assert list(found) == [fault.name for fault in FAULTS]
    for fault in FAULTS:
        path, _, name = found[fault.name].partition("::")
        assert any(path.startswith(name.partition("::")[0]) for name in fault.tests if name.startswith("tests/"))
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "said", "answer", "test"),
    [
        (1, "F\nFAILED tests/a/test_b.py::test_c[x - y-1] - AssertionError: no\n1 failed", "found", "tests/a/test_b.py::test_c[x - y-1]"),
        (1, "ERROR tests/a/test_b.py::test_c - OSError\n", "found", "tests/a/test_b.py::test_c"),
        (0, "3 passed, 2 skipped", "MISSED", ""),
        (5, "no tests ran", "NOT TESTED (exit code 5)", ""),
        (1, "what is no test failed", "NOT TESTED (exit code 1)", ""),
    ],
)  # fmt: skip
def test_what_an_answer_says(code, said, answer, test):
    given = Answer.of(code, said)
    assert (str(given), given.test) == (answer, test)
