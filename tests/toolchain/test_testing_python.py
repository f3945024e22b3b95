# SPDX-License-Identifier: MIT
"""The tests on another interpreter, or with its torch: which are refused, and in what words; where torch lies."""

from __future__ import annotations

import argparse
import re
import sys

import pytest

from kernelwright_toolchain.commands import bench, tests
from kernelwright_toolchain.errors import RequestError, ToolMissing
from kernelwright_toolchain.testing import environment
from kernelwright_toolchain.testing.torch import Torch, installed, on_another_python
from tests.tree import ROOT, Project, serve


def fake(tmp_path, text: str) -> str:
    program = tmp_path / "python3"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def test_an_interpreter_is_asked_what_it_is():
    chosen = on_another_python(sys.executable, None)
    assert chosen.python == sys.executable
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]}" in chosen.about


def test_a_program_that_is_not_there():
    with pytest.raises(ToolMissing, match="no-such-python: there is no such program on PATH"):
        on_another_python("no-such-python", "none")


def test_a_program_that_does_not_run(tmp_path):
    with pytest.raises(ToolMissing, match=r"does not run .*not found in this version"):
        on_another_python(fake(tmp_path, "echo not found in this version; exit 127"), None)


def test_too_old(tmp_path):
    with pytest.raises(RequestError, match=r"is Python 3.8 at /old; the wheel needs 3.10"):
        on_another_python(fake(tmp_path, "echo /old 3 8"), None)


def test_torch_is_for_kw_of_that_python():
    with pytest.raises(RequestError, match=r"run kw by that Python for --torch torch==2.13.0"):
        on_another_python(sys.executable, "torch==2.13.0")


def test_an_installed_torch_may_lie_anywhere(monkeypatch, tmp_path):
    """In the user's own folder, or in one that PYTHONPATH or a .pth file names: none of them is a site's."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there/torch.py").write_text("__version__ = '2.99'\n", encoding="utf-8")
    python = fake(tmp_path, f'PYTHONPATH={tmp_path}/there exec {sys.executable} "$@"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = installed()
    assert found
    assert (found.key, found.python) == ("installed-2.99", python)
    assert found.paths[0] == str(tmp_path / "there")
    assert not [path for path in found.paths if path.endswith(("lib-dynload", ".zip"))]


def test_an_environment_with_an_installed_torch_is_for_where_that_lies(monkeypatch, tmp_path):
    lock = tmp_path / "tests.txt"
    lock.touch()
    serve(monkeypatch, Project(tmp_path))
    monkeypatch.setattr(environment, "lock_of", lambda _: lock)
    monkeypatch.setattr(environment, "_make", lambda place, *_: place.mkdir(parents=True))
    here, there = (environment.ready("tests", Torch("installed-2", "", (path,))) for path in ("/here", "/there"))
    assert here != there
    assert here == environment.ready("tests", Torch("installed-2", "", ("/here",)))


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        (tests, ["--torch", " "]),
        (tests, ["--python", "no-such-python"]),
        (bench, ["--torch", " "]),
        (bench, ["--torch", "none"]),
    ],
    ids=str,
)
def test_a_refusal_does_not_wait_for_a_build(verb, options, monkeypatch):
    monkeypatch.setattr(verb, "build", lambda *_: pytest.fail("built first"))
    with pytest.raises((RequestError, ToolMissing), match=r"names nothing|no such program|there is none"):
        verb.run(argparse.Namespace(arguments=options))


def test_packages_beside_the_locks_are_installed_by_hash_and_make_another_environment(monkeypatch, tmp_path):
    lock, more = tmp_path / "tests.txt", tmp_path / "more.txt"
    lock.touch()
    more.write_text("a==1 --hash=sha256:00\n")
    serve(monkeypatch, Project(tmp_path))
    asked = []
    monkeypatch.setattr(environment, "lock_of", lambda _: lock)
    monkeypatch.setattr(environment, "_make", lambda place, *_: place.mkdir(parents=True))
    monkeypatch.setattr(environment.pip, "run_pip", lambda words, *_: asked.append(words))
    plain, first = environment.ready("tests"), environment.ready("tests", None, more)
    more.write_text("a==2 --hash=sha256:00\n")
    assert len({plain, first, environment.ready("tests", None, more)}) == 3
    assert [words[-1] for words in asked] == [str(more)] * 2
    assert all("--require-hashes" in words and "--no-deps" in words for words in asked)


def test_the_libraries_that_others_use_are_pinned_by_hash():
    text = (ROOT / "tests/integrations/requirements.txt").read_text(encoding="utf-8")
    rows = [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]
    assert len(rows) > 20
    assert [row for row in rows if not re.fullmatch(r"[\w-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", row)] == []
