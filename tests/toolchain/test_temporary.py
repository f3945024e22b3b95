# SPDX-License-Identifier: MIT
"""What a build that is ended leaves of temporary files: nothing outside the tree, and there what the next one sweeps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright_toolchain.building import package
from kernelwright_toolchain.providers import host, pip

# What a build's own child leaves where temporary files go, and then waits to be killed.
CHILD = """
import sys, tempfile, time
print(tempfile.mkdtemp(), flush=True)
time.sleep(600)
"""


def test_a_child_that_is_killed_leaves_no_temporary_files(monkeypatch, tmp_path):
    """It has no time to clean up, so what it has of them lies where its parent sweeps."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(package.start, "command", lambda *_: [sys.executable, "-c", CHILD])
    seen = []

    def interrupted(line: str, _: bool) -> None:
        place = Path(line.strip())
        seen.append((place, place.is_dir()))
        raise KeyboardInterrupt

    monkeypatch.setattr(package, "_show", interrupted)
    tools = host.HostTools(Path(sys.executable), (), (), None)
    with pytest.raises(KeyboardInterrupt):
        package.build_wheel({}, tools, tmp_path, tmp_path / "library", tmp_path / "out", 1)
    ((place, was_there),) = seen
    assert was_there
    assert place.is_relative_to(tmp_path)
    assert not place.exists()
    assert not (tmp_path / "elsewhere").exists()


def test_pip_unpacks_where_it_is_swept_up(monkeypatch, tmp_path):
    said = []

    def run(command, env, **_):
        said.append(env["TMPDIR"])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(pip.launcher, "pip_environment", lambda _: {})
    monkeypatch.setattr(pip.subprocess, "run", run)
    lock = tmp_path / "thing.txt"
    lock.write_text("thing==1 --hash=sha256:0\n")
    place = pip.install(lock, root=tmp_path / "state")
    (scratch,) = said
    assert Path(scratch).parent.parent == place.parent  # in what another run removes if this one is killed
    assert list(place.iterdir()) == []
