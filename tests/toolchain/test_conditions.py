# SPDX-License-Identifier: MIT
"""Which interpreter the second build of `./kw repro` takes, and when another zlib has to be stood in for."""

from __future__ import annotations

import pytest

from kernelwright_toolchain.exact import conditions
from kernelwright_toolchain.exact.conditions import Python

MINE = Python("/mine/python3", "3.11.2", "cpython-311", "1.2.13")
NEWER = Python("", "3.13.5", "cpython-313", "1.2.13")
OTHER_ZLIB = Python("", "3.11.2", "cpython-311", "1.3.1.zlib-ng")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with these interpreters on PATH and no others."""

    def act(**pythons: Python) -> None:
        found = {}
        for name, python in pythons.items():
            path = tmp_path / name.replace("_", ".")
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
            found[str(path)] = python
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(
            conditions, "ask", lambda path: MINE if path == conditions.sys.executable else found.get(path)
        )
        monkeypatch.setattr(conditions, "_namespaces", lambda: True)

    return act


def test_another_zlib_is_worth_more_than_another_version(machine):
    machine(python3_11=OTHER_ZLIB, python3_13=NEWER)
    assert conditions.other_python(MINE, same_tools=False) == OTHER_ZLIB
    machine(python3_11=MINE, python3_13=NEWER)
    assert conditions.other_python(MINE, same_tools=False) == NEWER
    assert conditions.other_python(MINE, same_tools=True) is None


def test_only_where_no_other_zlib_is_here_one_is_stood_in_for(machine):
    machine(python3_11=OTHER_ZLIB)
    _, second = conditions.pair(jobs=2, quick=True)
    assert (second.python, second.other_zlib) == (OTHER_ZLIB, False)
    assert not {"zlib", "Python"} & second.notes.keys()
    machine(python3_11=MINE)
    _, second = conditions.pair(jobs=2, quick=True)
    assert (second.python, second.other_zlib) == (MINE, True)
    assert {"zlib", "Python"} <= second.notes.keys()


def test_the_two_sets_differ_in_every_aspect_but_those_that_are_noted(machine):
    machine(python3_13=NEWER)
    first, second = conditions.pair(jobs=1, quick=False)
    rows = [line.split("  ") for line in conditions.table(first, second).splitlines()]
    same = {row[0].strip() for row in rows if len(set(filter(None, map(str.strip, row[1:])))) == 1}
    known = {line.partition(":")[0] for line in conditions.table(first, second).splitlines() if ": " in line}
    assert same <= known, (same, known)
    assert second.jobs > first.jobs
