# SPDX-License-Identifier: MIT
"""The recorded sha256 of the default wheels: written, compared by a build, and by `verify --quick`."""

from __future__ import annotations

import hashlib
import json
from argparse import Namespace
from pathlib import Path

import pytest
import tiny

from kernelwright_toolchain import targets
from kernelwright_toolchain.building import recorded
from kernelwright_toolchain.commands import verify as command
from kernelwright_toolchain.errors import GateError, RequestError
from kernelwright_toolchain.request import resolve
from tests.tree import ROOT

TABLE = targets.load()
REQUEST = resolve(TABLE, target="linux-x86_64")
CODE = {
    "kernelwright/kernels/sm_80/one.cubin": b"one for 80",
    "kernelwright/kernels/sm_86/one.cubin": b"one for 86",
    "kernelwright/kernels/sm_80/two.cubin": b"two for 80",
    tiny.LIBRARY: b"library",
}
BUILD = {"target": "linux-x86_64", "toolkit": REQUEST.toolkit.name, "debug": "no"}
MEMBERS = {
    **CODE,
    "kernelwright/__init__.py": b"package",
    "kernelwright/manifest.json": json.dumps({"target": "linux-x86_64", "provider": "pip"}).encode(),
}


@pytest.fixture
def tree(tmp_path) -> Path:
    """Two families of one operator each, with their records."""
    place = tmp_path / "tree"
    for name in ("csrc/ops/a/one.cu", "csrc/ops/b/two.cu", "csrc/core/x.h", "src/kernelwright/__init__.py"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("package", encoding="utf-8")
    (place / "targets.toml").write_bytes((ROOT / "targets.toml").read_bytes())
    found = recorded.of_members(MEMBERS)
    other = {**found, "lib/libkernelwright.so": "0" * 64}
    written = recorded.write({"linux-x86_64": found, "linux-aarch64": other}, place)
    assert [str(path) for path in written] == [
        "csrc/core/library.sha256", "csrc/ops/a/images.sha256", "csrc/ops/b/images.sha256",
    ]  # fmt: skip
    assert recorded.write({"linux-x86_64": found, "linux-aarch64": other}, place) == []
    return place


def wheel(tmp_path, changes=None, recipe=None) -> Path:
    members = tiny.sealed({**MEMBERS, **(changes or {})}, {**tiny.RECIPE, "build": BUILD, **(recipe or {})})
    return tiny.write(tmp_path / tiny.NAME, members)


def test_a_family_has_a_file_and_a_line_has_its_targets(tree):
    lines = (tree / "csrc/ops/a/images.sha256").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# SPDX-License-Identifier: MIT"
    digest = hashlib.sha256(b"one for 80").hexdigest()
    assert lines[2] == f"{digest}  kernels/sm_80/one.cubin  linux-x86_64 linux-aarch64"
    library = (tree / "csrc/core/library.sha256").read_text(encoding="utf-8")
    assert f"\n{'0' * 64}  lib/libkernelwright.so  linux-aarch64\n" in library


def test_a_build_says_that_it_made_the_recorded_bytes(tree, tmp_path):
    assert recorded.check(wheel(tmp_path), REQUEST, tree) == "the recorded bytes: 3 images and the library"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernelwright/kernels/sm_86/one.cubin": b"new"}, r"kernels/sm_86/one\.cubin: recorded [0-9a-f]{12}…, here"),
        (
            {"kernelwright/kernels/sm_86/one.cubin": b"two for 80"},
            r"here \S+, which is recorded of kernels/sm_80/two\.cu",
        ),
        ({"kernelwright/kernels/sm_89/two.cubin": b"new"}, r"kernels/sm_89/two\.cubin: not recorded, here"),
        ({tiny.LIBRARY: b"another"}, r"lib/libkernelwright\.so: recorded"),
    ],
)
def test_a_build_of_other_bytes_is_refused_with_the_command_that_accepts_them(tree, tmp_path, changes, words):
    path = wheel(tmp_path, changes)
    with pytest.raises(GateError, match=words) as caught:
        recorded.check(path, REQUEST, tree)
    assert str(caught.value).endswith(f"commit the files with the change: {recorded.ACCEPT}")
    recorded.write({"linux-x86_64": recorded.of_wheel(path)}, tree)
    assert recorded.check(path, REQUEST, tree).startswith("the recorded bytes")


def test_what_is_recorded_and_not_built_is_named(tree, tmp_path, monkeypatch):
    path = wheel(tmp_path)
    (tree / "csrc/ops/b/images.sha256").unlink()  # nobody recorded it
    with pytest.raises(GateError, match=r"kernels/sm_80/two\.cubin: not recorded"):
        recorded.check(path, REQUEST, tree)
    monkeypatch.delitem(MEMBERS, "kernelwright/kernels/sm_86/one.cubin")
    with pytest.raises(GateError, match=r"kernels/sm_86/one\.cubin: recorded \S+, not here"):
        recorded.check(wheel(tmp_path), REQUEST, tree)


def test_other_requests_are_not_compared(tree, tmp_path):
    for asked in ({"archs": "80"}, {"debug": True}, {"provider": "system"}):
        request = resolve(TABLE, target="linux-x86_64", **asked)
        assert recorded.check(wheel(tmp_path), request, tree).startswith("not compared")


@pytest.mark.parametrize(
    "line", ["x", "0123  a  b", f"{'0' * 64} a b", f"{'a' * 64}  kernels/sm_80/one.cubin  linux-x86_64"]
)
def test_a_damaged_record_is_named_by_its_line(tree, line):
    path = tree / "csrc/ops/a/images.sha256"
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(GateError, match=r"csrc/ops/a/images\.sha256, line 5, is not what .*--write. writes"):
        recorded.read(tree, "linux-x86_64")


def quick(path: Path, tree: Path) -> int:
    return command.run(Namespace(wheel=path, source=tree, quick=True, cached=False, jobs=None))


def test_verify_quick_needs_no_compiler(tree, tmp_path, capsys):
    path = wheel(tmp_path)
    assert quick(path, tree) == 0
    said = capsys.readouterr().out
    assert said.count("same       ") == 5
    assert "SUCCESS: 5 members are as recorded or in the tree; the 3 others are for" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernelwright/kernels/sm_80/two.cubin": b"x"}, "kernels/sm_80/two.cubin: recorded: recorded"),
        (
            {"kernelwright/__init__.py": b"x"},
            "__init__.py: source: not what src/kernelwright/__init__.py of the tree is",
        ),
    ],
)
def test_verify_quick_names_what_is_not_as_recorded_or_in_the_tree(tree, tmp_path, capsys, changes, words):
    assert quick(wheel(tmp_path, changes), tree) == 1
    assert words in capsys.readouterr().out


def test_verify_quick_sees_false_claims_and_bytes_before_the_archive(tree, tmp_path, capsys):
    path = wheel(tmp_path)
    path.write_bytes(b"!" + path.read_bytes())
    assert quick(path, tree) == 1
    assert "the wheel: packing: 1 bytes stand before the archive" in capsys.readouterr().out
    assert quick(wheel(tmp_path, recipe={"source": {"sha256": "1" * 64}}), tree) == 1
    assert "statement.json: claim: its inputs have the sha256" in capsys.readouterr().out


@pytest.mark.parametrize("change", [{"archs": "sm_80"}, {"provider": "nix"}, {"debug": "yes"}, {"target": "l4t-r36"}])
def test_verify_quick_is_for_default_wheels(tree, tmp_path, change):
    with pytest.raises(RequestError, match="only the default wheels of linux-x86_64, linux-aarch64 are recorded"):
        quick(wheel(tmp_path, recipe={"build": {**BUILD, **change}}), tree)
