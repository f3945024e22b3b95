# SPDX-License-Identifier: MIT
"""What `./kw repro` says and returns, with wheels that are there already in the place of its three builds."""

from __future__ import annotations

from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path

import pytest
import tiny

from kernelwright_toolchain.commands import repro as command
from kernelwright_toolchain.exact import conditions, rebuild

MEMBERS = {"kernelwright/x.py": b"x = 1\n", "kernelwright/manifest.json": tiny.manifest()}
PATH = {**MEMBERS, "kernelwright/x.py": b"x = '/elsewhere/tree/x.c'\n"}
CLOCK = {**MEMBERS, "kernelwright/x.py": b"x = '2026-11-21 22:00:01'\n"}


@pytest.fixture(scope="module")
def pair():
    """It asks every interpreter of this machine, so it is asked for once."""
    return conditions.pair(jobs=1, quick=True)


@pytest.fixture
def run(pair, tmp_path, monkeypatch):
    """The exit code of a run whose builds give these wheels."""

    @contextmanager
    def scratch():
        yield tmp_path

    def act(*members: dict[str, bytes]) -> int:
        given = iter(members)

        def build(_copy, _settings, _at, _tools, out: Path) -> Path:
            out.mkdir(exist_ok=True)
            return tiny.write(out / tiny.NAME, tiny.sealed(next(given)))

        monkeypatch.setattr(rebuild, "build", build)
        asked = {"archs": "89", "toolkit": None, "target": "linux-x86_64", "ops": None, "provider": "pip"}
        return command.run(Namespace(**asked, debug=False, clean=False, jobs=1, quick=True))

    monkeypatch.setattr(rebuild, "scratch", scratch)
    monkeypatch.setattr(conditions, "pair", lambda **_: pair)
    monkeypatch.setattr(rebuild, "provision", lambda *_: [])
    monkeypatch.setattr(rebuild, "lay_out", lambda *_, **__: tmp_path)
    return act


def test_three_builds_of_the_same_bytes_are_a_success(run, capsys):
    assert run(MEMBERS, MEMBERS, MEMBERS) == 0
    assert "three builds, 4 members each: the same bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("builds", "words"),
    [
        ((MEMBERS, PATH, MEMBERS), "path: '/elsewhere/tree/x.c' in the wheel"),
        ((MEMBERS, MEMBERS, CLOCK), "clock: '2026-11-21' in the wheel"),
    ],
    ids=["second", "on top of the first"],
)
def test_a_build_that_differs_is_a_failure_with_the_member_and_the_reason(run, capsys, builds, words):
    assert run(*builds) == 1
    said = capsys.readouterr().out
    assert f"kernelwright/x.py: {words}" in said
    assert "DIFFERENT" in said
    assert "SUCCESS" not in said
