# SPDX-License-Identifier: MIT
"""The locks in this tree belong to its tables; the walk that makes them; what a stale one is told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import ProvisionError, TableError
from kernelwright_toolchain.locking import conda, names, redist, resolve, wanted, write
from kernelwright_toolchain.testing import locked_torch
from kernelwright_toolchain.workflows import render
from tests.tree import ROOT

GLIBC = {"x86_64": (2, 28), "aarch64": (2, 28)}
TWO = wanted.Wanted("locks/t.txt", ("a==1",), ("3.10", "3.11"), ("aarch64", "x86_64"), GLIBC)
LOCKS = wanted.wanted(targets.load())


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.path)
def test_this_trees_locks_are_what_its_tables_want(lock):
    assert write.problems(lock) == []


def test_every_lock_of_the_table_is_made_and_nothing_else():
    table = targets.load()
    named = {path for toolkit in table.toolkits.values() for path in toolkit.locks.values()}
    named |= {path for toolkit in table.toolkits.values() if toolkit.nvcc for path in toolkit.nvcc.locks.values()}
    groups = set(wanted.pyproject()["dependency-groups"]) - set(wanted.UNLOCKED_GROUPS)
    named |= set(table.tools.locks.values()) | {f"locks/{name}.txt" for name in groups}
    archives = set(redist.locks(table))
    assert {lock.path for lock in LOCKS} == named - archives
    assert archives < named
    assert {f"locks/{path.name}" for path in (ROOT / "locks").iterdir()} == named | {names.NAMES, locked_torch.TABLE}


def test_every_file_of_compilers_and_tools_has_a_name():
    assert names.problems(targets.load()) == []


def test_names_of_other_files_than_the_locks_are_told(tmp_path):
    table = targets.load()
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    path = tmp_path / names.NAMES
    good = path.read_text()
    first = names.named(table)[0].path
    digest = json.loads(good)[first][0]["sha256"]
    path.write_text(good.replace(digest, "0" * 64))
    assert f"does not name the files of {first}" in names.problems(table, tmp_path)[0]
    path.write_text(good.replace(first, "locks/nox.txt"))
    assert [line.partition(";")[0] for line in names.problems(table, tmp_path)] == [
        f"{names.NAMES} does not name the files of {first}",
        f"{names.NAMES} names files of locks/nox.txt, which is no lock of compilers or tools",
    ]
    path.unlink()
    assert "is missing" in names.problems(table, tmp_path)[0]


def named(file: str, digest: str) -> dict:
    return {
        "metadata": {"name": file.split("-", maxsplit=1)[0], "version": file.split("-")[1]},
        "download_info": {"url": f"https://h.invalid/x/{file}", "archive_info": {"hashes": {"sha256": digest}}},
    }


def test_names_are_asked_for_each_python_by_the_locks_own_markers(monkeypatch):
    old, new, some = "a-1-cp310-cp310-any.whl", "a-1-cp311-abi3-any%2Bx.whl", "b_b-2-py3-none-any.whl"
    text = write.text(
        TWO,
        [
            resolve.Package(
                "a", "1", {(p, m): d * 64 for p, d in (("3.10", "1"), ("3.11", "2")) for m in TWO.machines}
            ),
            resolve.Package("b-b", "2", {("3.10", m): "3" * 64 for m in TWO.machines}),
        ],
    )

    def ask(_, place, wanted):
        assert set(wanted) == ({"a==1", "b-b==2"} if place[0] == "3.10" else {"a==1"})
        of_a = named(old, "1" * 64) if place[0] == "3.10" else named(new, "2" * 64)
        return [of_a, *([named(some, "3" * 64)] if place[0] == "3.10" else [])]

    monkeypatch.setattr(resolve, "ask", ask)
    monkeypatch.setattr(names, "size_of", lambda _: 7)
    assert names._rows(TWO, text) == [
        {"file": old, "sha256": "1" * 64, "size": 7, "pythons": ["3.10"]},
        {"file": "a-1-cp311-abi3-any+x.whl", "sha256": "2" * 64, "size": 7, "pythons": ["3.11"]},
        {"file": some, "sha256": "3" * 64, "size": 7, "pythons": ["3.10"]},
    ]
    with pytest.raises(ProvisionError, match="has no hash of a-1-cp310"):
        names._rows(TWO, text.replace("1" * 64, "4" * 64))


def test_groups_may_include_groups():
    assert set(wanted.group("nox")) < set(wanted.group("lint"))
    with pytest.raises(TableError, match="no group 'nothing'"):
        wanted.group("nothing")


def test_stale_and_broken_locks_are_told(tmp_path):
    path = tmp_path / "locks" / "t.txt"
    path.parent.mkdir()
    assert "is missing" in write.problems(TWO, tmp_path)[0]
    good = write.text(TWO, [resolve.Package("a", "1", {(p, m): "0" * 64 for p in TWO.pythons for m in TWO.machines})])
    path.write_text(good)
    assert write.problems(TWO, tmp_path) == []
    path.write_text(good + "# https://somewhere.invalid\n")
    assert ["holds an address" in line for line in write.problems(TWO, tmp_path)] == [True]
    path.write_text(good + "b==2\n")
    assert ["no pin with hashes" in line for line in write.problems(TWO, tmp_path)] == [True]
    path.write_text(good)
    newer = replace(TWO, requirements=("a==2",))
    assert [line.partition(" ")[2] for line in write.problems(newer, tmp_path)] == [
        f"was made from other requirements than there are now; run `{write.REGENERATE}`",
        f"does not pin a==2; run `{write.REGENERATE}`",
    ]


def test_a_package_that_some_need_gets_a_marker():
    place = {("3.10", "aarch64"): "1" * 64, ("3.10", "x86_64"): "0" * 64}
    lines = write.text(TWO, [resolve.Package("a", "1", place)]).splitlines()
    assert lines[-3:] == [
        'a==1 ; (python_version == "3.10") \\',
        f"    --hash=sha256:{'0' * 64} \\",
        f"    --hash=sha256:{'1' * 64}",
    ]
    one = {("3.10", "x86_64"): "0" * 64, ("3.11", "x86_64"): "0" * 64}
    assert 'a==1 ; (platform_machine == "x86_64")' in write.text(TWO, [resolve.Package("a", "1", one)])
    corner = {("3.10", "x86_64"): "0" * 64, ("3.11", "aarch64"): "0" * 64}
    with pytest.raises(TableError, match="no marker says that"):
        write.text(TWO, [resolve.Package("a", "1", corner)])


INDEX = {  # name -> versions, newest last: the oldest Python that takes it, what it depends on
    "a": {"1": ("3.10", ["b>=1", 'old; python_version < "3.11"', 'never; sys_platform == "win32"', "c[fast]"])},
    "b": {"1": ("3.10", []), "2": ("3.11", [])},
    "c": {"1": ("3.10", ['d<2; extra == "fast"', 'slow; extra == "slow"'])},
    "d": {"1": ("3.10", []), "2": ("3.10", [])},
    "old": {"1": ("3.10", [])},
}


def index(lock, place, requirements):
    """pip's answer, from the small index above."""
    from packaging.requirements import Requirement

    items = []
    for text in requirements:
        need = Requirement(text)
        fits = [
            (v, deps) for v, (python, deps) in INDEX[need.name].items() if python <= place[0] and v in need.specifier
        ]
        version, deps = fits[-1]
        digest = {"hashes": {"sha256": f"{need.name}{version}"}}
        meta = {"name": need.name, "version": version, "requires_dist": deps}
        items.append({"metadata": meta, "download_info": {"archive_info": digest}})
    return items


def test_the_oldest_python_chooses_and_markers_are_those_of_the_place(monkeypatch):
    monkeypatch.setattr(resolve, "ask", index)
    found = {package.name: package for package in resolve.resolve(TWO)}
    assert {name: package.version for name, package in found.items()} == dict.fromkeys(("a", "b", "c", "d", "old"), "1")
    assert set(found["old"].hashes) == {("3.10", "aarch64"), ("3.10", "x86_64")}
    assert set(found["b"].hashes) == {(python, machine) for python in TWO.pythons for machine in TWO.machines}
    assert set(found["b"].hashes.values()) == {"b1"}


def test_platform_tags_go_down_from_the_floor():
    tags = resolve.platforms("aarch64", (2, 28))
    assert tags[0] == "manylinux_2_28_aarch64"
    assert "manylinux_2_17_aarch64" in tags
    assert "manylinux2014_aarch64" in tags
    assert not any("2_29" in tag for tag in tags)


def test_the_verb_compares_and_says_what_is_stale(tmp_path):
    for name in ("toolchain", "locks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    xray = "src/kernelwright/doctor/xray"  # whose reader of ELF is the toolchain's
    shutil.copytree(ROOT / xray, tmp_path / xray)
    for name in ("kw", "targets.toml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    lock = tmp_path / "locks" / "nox.txt"

    def check(*paths: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "toolchain", "lock", "--check", *paths]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    paths = [lock.path for lock in LOCKS]
    assert check(*paths) == (0, f"{len(paths)} files are as targets.toml and pyproject.toml want them\n")
    stale = lock.read_text().replace("\nnox==", "\nnox-other==")
    lock.write_text(stale)
    code, said = check(*paths)
    assert code == TableError.exit_code
    assert said.startswith("error: locks/nox.txt does not pin nox==")
    assert lock.read_text() == stale


def test_the_locked_builds_of_torch_are_of_the_group_and_of_this_trees_pythons():
    (wanted_torch,) = wanted.group("torch")
    pinned = render.pins()["torch"]
    (version,) = locked_torch.known().keys() - pinned["earlier"]
    assert f"torch=={version.partition('+')[0]}" == wanted_torch
    for number, rows in locked_torch.known().items():
        machines = GLIBC if number == version else [pinned["machine"]]
        places = {f"{python} {machine}" for python in wanted.pythons() for machine in machines}
        assert set(rows) <= places
        assert number == version or set(rows) == places  # PyPI has them all
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in rows.values())


def test_a_locked_torch_brings_all_that_it_needs_and_another_file_is_refused(monkeypatch):
    digest = "a" * 64
    monkeypatch.setattr(locked_torch, "known", lambda: {"2.13.0+cpu": {locked_torch.place(): digest}})
    lines = locked_torch.lock("2.13.0+cpu", digest).splitlines()
    assert lines[0] == f"torch==2.13.0+cpu --hash=sha256:{digest}"
    assert {"sympy", "jinja2", "markupsafe"} <= {line.partition("==")[0] for line in lines}
    assert locked_torch.lock("2.13.0", digest) == ""
    with pytest.raises(ProvisionError, match=r"another file for torch 2.13.0\+cpu"):
        locked_torch.lock("2.13.0+cpu", "b" * 64)


def test_rows_of_torch_that_are_not_locked_are_said_and_filled_where_an_index_has_them(monkeypatch, capsys):
    table = targets.load()
    known = locked_torch.known()["2.13.0+cpu"]
    lacking = locked_torch.unlocked(table)
    assert lacking == ["locks/torch.json: not locked: torch 2.13.0+cpu for Python 3.10 x86_64"]

    def ask(lock, place, requirements):
        assert (tuple(requirements), lock.glibc) == (lock.requirements, GLIBC)
        name = " ".join(place)
        if requirements[0].startswith("torch==="):
            digest = locked_torch.known()[requirements[0][8:]][name]
            return [{"download_info": {"archive_info": {"hashes": {"sha256": digest}}}}]
        assert requirements[0] == "torch==2.13.0+cpu"
        if name == "3.13 x86_64":
            raise ProvisionError("no such build\nand more")  # what is locked stays
        return [{"download_info": {"archive_info": {"hashes": {"sha256": known.get(name, "9" * 64)}}}}]

    monkeypatch.setattr(locked_torch.resolve, "ask", ask)
    made = json.loads(locked_torch.text(table))
    assert made == {**locked_torch.known(), "2.13.0+cpu": {**known, "3.10 x86_64": "9" * 64}}
    assert capsys.readouterr().err == "not locked: no such build\n"
    other = [{"download_info": {"archive_info": {"hashes": {"sha256": "8" * 64}}}}]
    monkeypatch.setattr(locked_torch.resolve, "ask", lambda *_: other)
    with pytest.raises(ProvisionError, match=r"another file for torch 2.13.0\+cpu .* for Python 3.10 aarch64"):
        locked_torch.text(table)


@pytest.mark.parametrize("name", ["cu124", "cu126"])
def test_a_row_that_claims_conda_without_a_lock_is_told(name):
    text = (ROOT / "targets.toml").read_text()
    assert conda.problems(targets.parse(text)) == []
    before, row, after = text.partition(f"[toolkit.{name}]")
    gcc = f'\n[gcc.{name}]\nversion = "13.3.0"\nmajor = 13\nsysroot = "2.28"\n' if f"[gcc.{name}]" not in text else ""
    claiming = targets.parse(before + row + after.replace("conda = []", 'conda = ["aarch64"]', 1) + gcc)
    nvcc = claiming.toolkits[name].components["nvcc"]
    (told,) = conda.problems(claiming)
    assert told.startswith(
        f"targets.toml [toolkit.{name}]: hosts.conda names aarch64, and conda-lock.yml has no cuda-nvcc-"
    )
    assert f"cuda-nvcc-{nvcc} for linux-aarch64; take the machine out" in told
