# SPDX-License-Identifier: MIT
"""What a first build fetches: said in all before it begins, and what every Python shares fetched and kept once."""

from __future__ import annotations

import hashlib
import json
import sys
from types import SimpleNamespace

import pytest

from kernelwright_toolchain.locking import names
from kernelwright_toolchain.providers import download, pip, siblings
from kernelwright_toolchain.targets import load
from tests.toolchain import launcher
from tests.tree import ROOT, Project, serve

HERE = f"3.{sys.version_info[1]}"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree of one lock for each Python: a package as big as a compiler, and one that each Python has its own file of."""
    wheels, locks = tmp_path / "wheels", tmp_path / "locks"
    wheels.mkdir()
    locks.mkdir()
    made = [
        launcher.make_wheel(wheels, "big_one", {"big_one/data": "x" * 1000, "big_one/lib/more": "y"}),
        launcher.make_wheel(wheels, "own", {"own.py": ""}),
    ]
    digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in made]
    lines = [
        f"{name}==1.0 \\\n    --hash=sha256:{digest}\n"
        for name, digest in zip(("big-one", "own"), digests, strict=True)
    ]
    (locks / "t.txt").write_text("# a lock\n" + "".join(lines))
    rows = [
        {"file": made[0].name, "sha256": digests[0], "size": siblings.BIG},
        {"file": made[1].name, "sha256": digests[1], "size": 3_000_000, "pythons": [HERE]},
        {"file": "other-1.0-py3-none-any.whl", "sha256": "0", "size": 7_000_000, "pythons": ["3.1"]},
    ]
    (tmp_path / names.NAMES).write_text(json.dumps({"locks/t.txt": rows}))
    serve(monkeypatch, Project(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return tmp_path


def as_python(monkeypatch, tag: str) -> None:
    for module in (pip, siblings):
        stand_in = SimpleNamespace(
            implementation=SimpleNamespace(cache_tag=tag), version_info=sys.version_info, executable=sys.executable,
            stderr=sys.stderr,
        )  # fmt: skip
        monkeypatch.setattr(module, "sys", stand_in)


@pytest.mark.slow
def test_a_second_python_links_what_is_big_and_the_same_for_all(tree, monkeypatch, capsys):
    lock = tree / "locks" / "t.txt"
    as_python(monkeypatch, "cpython-98")
    first = pip.install(lock, per_python=True, root=tree / "state")
    assert "(13 MB to fetch, once)" in capsys.readouterr().out
    (tree / "wheels" / "big_one-1.0-py3-none-any.whl").unlink()  # it cannot be fetched again
    as_python(monkeypatch, "cpython-99")
    second = pip.install(lock, per_python=True, root=tree / "state")
    assert "(3 MB to fetch, once)" in capsys.readouterr().out
    assert first != second
    for name in ("big_one/data", "big_one/lib/more", "big_one-1.0.dist-info/METADATA"):
        assert (second / name).stat().st_ino == (first / name).stat().st_ino
    assert (second / "own.py").stat().st_ino != (first / "own.py").stat().st_ino
    assert {path.name for path in second.iterdir()} == {path.name for path in first.iterdir()}


@pytest.mark.slow
def test_a_package_with_a_program_outside_its_folders_is_fetched_again(tree, monkeypatch):
    """Links of what a RECORD names beneath the directory would leave it out."""
    lock = tree / "locks" / "t.txt"
    as_python(monkeypatch, "cpython-98")
    first = pip.install(lock, per_python=True, root=tree / "state")
    (first / "bin").mkdir()
    record = first / "big_one-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + "../../bin/tool,,\n")
    as_python(monkeypatch, "cpython-99")
    place = pip.home(lock, per_python=True, root=tree / "state")
    assert siblings.at_hand(lock, place) == {}
    (first / "bin" / "tool").write_bytes(b"\x7fELF")
    assert siblings.at_hand(lock, place) == {}
    (first / "bin" / "tool").write_bytes(b"#!/usr/bin/python3\n")  # a script, which names the Python it was made by
    assert set(siblings.at_hand(lock, place)) == {"big_one"}


def test_the_locked_tools_share_their_compiler():
    table = load()
    for machine, path in table.tools.locks.items():
        shared = {
            row["file"].partition("-")[0]
            for row in siblings.rows(ROOT / path, machine)
            if row["size"] >= siblings.BIG and "pythons" not in row
        }
        assert shared >= {"ziglang", "cmake"}


def test_how_much_there_is_to_fetch_is_said_in_all_before_it_is(monkeypatch, tmp_path, capsys):
    table = load()
    monkeypatch.setattr(pip, "home", lambda lock, **_: tmp_path / lock.stem)
    monkeypatch.setattr(download.nvrtc, "here", lambda *_: None)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    known = json.loads((ROOT / names.NAMES).read_text())
    sizes = {
        name: sum(row["size"] for row in known[f"locks/{name}.txt"] if HERE in row.get("pythons", [HERE]))
        for name in ("tools-x86_64", "cu122-x86_64", "audit")
    }
    assert download.size(table, table.toolkits["cu122"], ["audit"]) == sum(sizes.values())
    of_sass = [row["size"] for row in known["locks/sass.txt"] if "x86_64" in row["file"]]
    assert download.size(table, None, ["audit", "sass"]) - download.size(table, None, ["audit"]) == sum(of_sass)
    assert download.size(table, None, ["audit"]) == sum(sizes.values()) - sizes["cu122-x86_64"]
    (tmp_path / "tools-x86_64").mkdir()
    assert download.size(table, table.toolkits["cu122"], []) == sizes["cu122-x86_64"]
    assert (
        download.told(150_000_000) == "to fetch, once: 150 MB into .kw/tools; 12 s at 100 Mbit/s or 60 s at 20 Mbit/s"
    )
    for name in ("cu122-x86_64", "audit"):
        (tmp_path / name).mkdir()
    download.announce(table, table.toolkits["cu122"], ["audit"])
    assert capsys.readouterr().err == ""
    assert all(row["size"] > 0 for rows in known.values() for row in rows)
