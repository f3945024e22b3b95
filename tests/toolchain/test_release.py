# SPDX-License-Identifier: MIT
"""Which wheels a release has, and the table of what they take."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace

import pytest
import tiny

from kernelwright_toolchain import targets
from kernelwright_toolchain.building import release, stamp
from kernelwright_toolchain.building.run import Outcome
from kernelwright_toolchain.commands import wheels as verb
from kernelwright_toolchain.errors import GateError, RequestError
from kernelwright_toolchain.request import resolve
from tests.tree import ROOT, Project, serve

TABLE = targets.load()
RELEASED = [row.name for row in TABLE.targets.values() if row.release]


def pairs(*given: list[str]) -> list[tuple[str | None, str | None]]:
    return [(one.target, one.toolkit) for one in release.plan(TABLE, *given)]


def test_without_a_wish_every_target_is_built_by_its_own_toolkit():
    assert pairs([], []) == [(name, None) for name in TABLE.targets]
    assert {one.provider for one in release.plan(TABLE, [], [])} == {"pip"}


def test_other_toolkits_are_for_the_released_targets():
    assert pairs([], ["cu124", "cu128"]) == [(name, kit) for kit in ("cu124", "cu128") for name in RELEASED]
    assert pairs(["l4t-r36"], ["cu124"]) == [("l4t-r36", "cu124")]
    with pytest.raises(RequestError, match="toolkit 'cu999' is not in targets"):
        pairs([], ["cu999"])
    with pytest.raises(RequestError, match="toolkit 'l4t-r36' is not in targets"):  # before cu124 is built
        pairs([], ["cu124", "l4t-r36"])


IMAGES = {
    "kernelwright/kernels/sm_100/b.cubin": b"x" * 500, "kernelwright/kernels/sm_89/a.cubin": b"x" * 300,
    "kernelwright/kernels/sm_89/b.cubin": b"x" * 100, "kernelwright/kernels/compute_90/a.ptx": b"x" * 50,
    "kernelwright/x.py": b"",
}  # fmt: skip
ROWS = tuple(stamp.Row(code, op, 1, 1, 0, 2.5, 10_000_000) for code in ("sm_89", "sm_100") for op in "ab")


@pytest.fixture
def outcome(tmp_path):
    wheel = tiny.write(tmp_path / "k.whl", IMAGES)
    return Outcome(wheel, stamp.Stamp("", "", "", "", ROWS, stamp.Step(4.4, 320_000_000), 12.0), True, resolve(TABLE))


def test_the_tables_say_what_each_wheel_takes_and_each_code_adds(outcome):
    made = release.made(TABLE, release.Options(target="l4t-r36"), outcome)
    size = outcome.wheel.stat().st_size
    assert [(share.code, share.size, share.seconds) for share in made.shares] == [
        ("sm_89", 400, 5.0), ("sm_100", 500, 5.0), ("compute_90", 50, 0),
    ]  # fmt: skip
    assert made.rest == size - 950
    other = replace(made, toolkit="cu999", shares=made.shares[:1])
    lines = release.page([made, other]).splitlines()
    assert lines[2] == f"| `k.whl` | {size:,} | {size - 950:,} | 12 | 4 | 320 |"
    assert lines[5:8] == [
        f"| code | {TABLE.targets['l4t-r36'].toolkit} | cu999 |", "| --- | --- | --- |",
        "| `sm_89` | 400 B, 5 s | 400 B, 5 s |",
    ]  # fmt: skip
    assert lines[8] == "| `sm_100` | 500 B, 5 s |  |"


def test_the_tables_take_the_place_of_those_in_a_document(tmp_path):
    path = tmp_path / "page.md"
    release.put(path, "a\n")
    assert path.read_text() == "a\n"
    path.write_text(f"before\n{release.BEGIN}\nold\n\nold\n{release.END}\nafter\n")
    for text in ("new \\1\n", "newer\n"):
        release.put(path, text)
        assert path.read_text() == f"before\n{release.BEGIN}\n{text}{release.END}\nafter\n"
    path.write_text(f"{release.BEGIN}\nold\n")
    with pytest.raises(RequestError, match="no <!-- end wheels -->"):
        release.put(path, "new\n")
    page = (ROOT / "docs/wheels.md").read_text(encoding="utf-8")
    assert page.count(f"{release.BEGIN}\n| wheel |") == page.count(release.END) == 1


def test_a_wheel_that_a_gate_refuses_keeps_no_other_from_being_made(outcome, tmp_path, monkeypatch, capsys):
    built = []

    def build(options, _table):
        built.append(options.target)
        if options.target == RELEASED[0]:
            raise GateError("k.whl has 5,000,001 bytes")
        return outcome

    monkeypatch.setattr(verb, "build", build)
    serve(monkeypatch, Project(tmp_path))
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "SHA256SUMS").write_text("aa  k.whl\n")
    given = argparse.Namespace(targets=[], toolkits=["cu128"], table=tmp_path / "t.md", jobs=None)
    with pytest.raises(GateError, match=r"1 of 2 wheels were not made:\nk\.whl has 5,000,001 bytes"):
        verb.run(given)
    assert built == RELEASED
    assert "k.whl" in (tmp_path / "t.md").read_text()
    assert "SUCCESS" not in capsys.readouterr().out


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr(verb, "build", lambda *_: pytest.fail("it was built"))
    torn = tmp_path / "torn.md"
    torn.write_text(f"{release.BEGIN}\nold\n", encoding="utf-8")
    for path in (tmp_path, tmp_path / "nowhere" / "t.md", torn):
        with pytest.raises(RequestError, match=re.escape(str(path))):
            verb.run(argparse.Namespace(targets=[], toolkits=[], table=path, jobs=None))
