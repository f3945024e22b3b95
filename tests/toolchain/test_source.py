# SPDX-License-Identifier: MIT
"""Where a build's commit comes from: git, else an sdist's note, else nobody knows."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kernelwright_toolchain import source


@pytest.fixture
def tree(tmp_path):
    for name in ("csrc/a.cu", "toolchain/b.py", "docs/c.md", "kw"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return tmp_path / "tree"


def git(tree, *words):
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", tree, *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_git_tells_commit_and_whether_inputs_changed(tree, tmp_path):
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "one")
    head = git(tree, "rev-parse", "HEAD")
    clean = source.state(tree)
    assert (clean.commit, clean.dirty) == (head, False)
    (tree / "docs/c.md").write_text("no input of a build", encoding="utf-8")
    assert source.state(tree) == clean
    (tree / "csrc/new.cu").write_text("untracked", encoding="utf-8")
    dirty = source.state(tree)
    assert (dirty.commit, dirty.dirty) == (head, True)
    assert dirty.sha256 != clean.sha256
    shutil.copytree(tree, tree / "vendored", ignore=shutil.ignore_patterns(".git"))
    assert source.state(tree / "vendored").commit is None  # not the commit of the project around it


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@pytest.mark.parametrize("junk", ["csrc/a.cu.swp", "csrc/mypy_cache/x.json", "src/.a.py.swp"])
def test_an_input_that_git_ignores_makes_the_tree_another_one(tree, tmp_path, junk):
    """By the tree's rules or by its maintainer's own: it is in the digest, so the commit alone does not give it."""
    git(tree, "init", "-q")
    git(tree, "config", "core.excludesFile", str(tmp_path / "own"))
    (tmp_path / "own").write_text("*.swp\n", encoding="utf-8")
    (tree / ".gitignore").write_text("__pycache__/\nmypy_cache/\n", encoding="utf-8")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "one")
    (tree / "csrc/__pycache__").mkdir()
    (tree / "csrc/__pycache__/x.pyc").write_text("", encoding="utf-8")
    clean = source.state(tree)
    assert clean.dirty is False  # Python's own leavings are no input
    (tree / junk).parent.mkdir(exist_ok=True)
    (tree / junk).write_text("junk", encoding="utf-8")
    assert git(tree, "status", "--porcelain") == ""
    assert source.state(tree).sha256 != clean.sha256
    assert source.state(tree).dirty is True


def test_a_note_is_believed_as_long_as_the_inputs_are_its_own(tree):
    bare = source.state(tree)
    assert (bare.commit, bare.dirty) == (None, None)
    note = source.Source("f" * 40, False, bare.sha256)
    (tree / source.NOTE).write_bytes(note.note())
    assert source.state(tree) == note
    (tree / "csrc/a.cu").write_text("changed after unpacking", encoding="utf-8")
    changed = source.state(tree)
    assert (changed.commit, changed.dirty) == ("f" * 40, True)
    for text in ("", "{}", "[]", '{"commit": null, "dirty": null, "sha256": ""}'):
        (tree / source.NOTE).write_text(text, encoding="utf-8")
        assert source.state(tree).commit is None


def test_the_digest_is_of_names_and_contents_alone(tree):
    first = source.state(tree).sha256
    (tree / "csrc/__pycache__").mkdir()
    (tree / "csrc/__pycache__/x.pyc").write_text("", encoding="utf-8")
    assert source.state(tree).sha256 == first
    (tree / "csrc/a.cu").rename(tree / "csrc/b.cu")
    assert source.state(tree).sha256 != first


@pytest.mark.parametrize(
    "name",
    ["locks/lint.txt", "kw", "toolchain/kernelwright_toolchain/exact/a.py", "csrc/ops/a/images.sha256", "csrc/.b.swp"],
)
def test_what_decides_no_byte_is_not_in_the_digest(tree, name):
    """A build copy has it all the same, or it is a hidden file that nothing reads."""
    first = source.state(tree).sha256
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text("another", encoding="utf-8")
    assert source.state(tree).sha256 == first
    assert tree / name in set(source.input_files(tree))
