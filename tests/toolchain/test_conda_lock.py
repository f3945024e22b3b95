# SPDX-License-Identifier: MIT
"""The conda environment's files: made from the table, satisfied by the lock, and seen to be stale when they are.

Nothing here reaches a channel. What only conda-lock can tell needs the environment that `./kw lint` makes of
locks/conda.txt.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import ProvisionError, RequestError, TableError, ToolMissing
from kernelwright_toolchain.locking import conda, conda_tool
from tests.tree import ROOT, Project, serve

FILES = (conda.ENVIRONMENT, conda.VIRTUAL, conda.LOCK)


@pytest.fixture(scope="module")
def table():
    return targets.load()


@pytest.fixture
def tree(tmp_path):
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture(scope="module")
def conda_lock():
    """An interpreter with conda-lock."""
    if importlib.util.find_spec("conda_lock"):
        return sys.executable
    lock = (ROOT / "locks" / "conda.txt").stat().st_mtime
    made = [path for path in (ROOT / ".kw" / "environments").glob("conda-*/complete") if path.stat().st_mtime > lock]
    if not made:
        pytest.skip("conda-lock is not here: `./kw lint` makes the environment of locks/conda.txt, and runs this file")
    return str(max(made, key=lambda path: path.stat().st_mtime).parent / "bin" / "python")


@pytest.fixture
def says(conda_lock, tree):
    """What conda-lock finds wrong in a copy of the files, after some text of one of them was replaced."""

    def ask(name: str = conda.LOCK, old: str = "", new: str = "", count: int = 1) -> list[str]:
        text = (tree / name).read_text()
        assert old in text
        (tree / name).write_text(text.replace(old, new, count))
        command = [conda_lock, "-m", "kernelwright_toolchain.locking.conda_check", str(tree)]
        done = subprocess.run(command, cwd=ROOT / "toolchain", capture_output=True, text=True, check=False)
        return done.stdout.split() and done.stdout.splitlines() if done.returncode == 0 else [done.stderr]

    return ask


def test_the_files_are_what_the_table_makes_them(table):
    assert conda.problems(table) == []


def test_the_environment_names_the_tables_versions(table):
    toolkit = conda.toolkit(table)
    gcc = table.gcc[toolkit.name]
    text = (ROOT / conda.ENVIRONMENT).read_text()
    for part in ("nvcc", "nvrtc"):
        assert f"- cuda-{part}={toolkit.components[part]}\n" in text
    for platform in conda.platforms(table):
        assert f"- gxx_{platform.subdir}={gcc.version}  # [{platform.selector}]\n" in text
        assert f"- sysroot_{platform.subdir}={gcc.sysroot}  #" in text
    assert f'__cuda: "{toolkit.driver.cuda}"' in (ROOT / conda.VIRTUAL).read_text()


def test_every_package_is_of_its_platform_and_has_its_hash():
    text = (ROOT / conda.LOCK).read_text()
    packages = conda.locked()
    assert len(packages) == text.count("\n- name: ") == len(re.findall(r"^    md5: [0-9a-f]{32}$", text, re.MULTILINE))
    assert len({(package.platform, package.name) for package in packages}) == len(packages)
    for package in packages:
        assert package.url.startswith("https://conda.anaconda.org/conda-forge/")
        assert package.url.split("/")[-2] in (package.platform, "noarch")
        assert package.stem.startswith(f"{package.name}-")
    assert {p.stem.rsplit("-", 2)[0] for p in packages} == {p.name for p in packages}


def test_the_header_names_every_package_without_sha256():
    """That they have less than the others is said where the lock is read, and no compiler is among them."""
    header, _, body = (ROOT / conda.LOCK).read_text().partition("version: 1\n")
    entries = body.split("\n- name: ")[1:]
    weak = {entry.partition("\n")[0]: entry for entry in entries if "sha256:" not in entry}
    told = re.search(r"^# (\d+) packages have an md5 and no sha256.*?:\n((?:# .*\n)+?)# Their", header, re.MULTILINE)
    assert {name.strip("# .\n") for name in told[2].split(", ")} == set(weak) if told else not weak
    assert told is None or int(told[1]) == len(weak)
    assert all(re.search(r"^  url: .*/noarch/", entry, re.MULTILINE) for entry in weak.values())  # Python alone


def test_the_header_says_how_and_when_it_was_assembled_as_long_as_that_is_so():
    header, _, body = (ROOT / conda.LOCK).read_text().partition("version: 1\n")
    assembled = re.search(r"^    assembled: '(\d{4}-\d\d-\d\d)'$", body, re.MULTILINE)
    if assembled:  # a lock that was solved on the channel has neither
        words = " ".join(line.strip("# ") for line in header.splitlines())
        for part in (
            f"assembled, on {assembled[1]}",
            "py-rattler",
            "Not confirmed against the live channel",
            "sources",
        ):
            assert part in words


def test_a_table_that_moved_on_is_noticed(table, tree):
    (tree / conda.ENVIRONMENT).write_text("name: other\n")
    assert conda.problems(table, tree) == [
        "environment.yml is not what targets.toml makes it; run `python -m toolchain lock environment.yml`"
    ]
    text = (tree / conda.LOCK).read_text()
    (tree / conda.LOCK).write_text(text.replace("platform: linux-aarch64", "platform: linux-64"))
    assert "no package for linux-aarch64" in conda.problems(table, tree)[-1]
    (tree / conda.LOCK).unlink()
    assert "is missing" in conda.problems(table, tree)[-1]


def test_two_reference_toolkits_are_no_one_environment(table):
    text = (ROOT / "targets.toml").read_text()
    second = text.replace('toolkit = "cu122"', 'toolkit = "cu124"', 1)
    with pytest.raises(TableError, match=r"one toolkit.*'cu122', 'cu124'"):
        conda.toolkit(targets.parse(second))


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


def test_conda_lock_finds_nothing_wrong(says):
    assert says() == []


WRONG = {  # file, what is replaced, by what, how often -> what conda-lock's own models, hash and matcher say
    "another request": (conda.ENVIRONMENT, "  - ninja\n", "  - ninja=1.13\n", 1, "was locked for another"),
    "another machine": (conda.VIRTUAL, '__glibc: "2.28"', '__glibc: "2.17"', 1, "was locked for another"),
    "another version": (conda.LOCK, "- name: cuda-nvcc\n  version: 12.2.140", "- name: cuda-nvcc\n  version: 12.4.131", 1,
                        "environment.yml wants cuda-nvcc 12.2.140"),
    "a gap": (conda.LOCK, "- name: libzlib\n", "- name: libzlob\n", 2, "libzlib is not locked"),
    "a request unmet": (conda.LOCK, "- name: ninja\n", "- name: other\n", 2, "wants ninja"),
    "another hand": (conda.LOCK, "  optional: false\n", "  optional: no\n", 1, "is not as conda-lock writes it"),
    "no hash": (conda.LOCK, "    md5: ", "    sha512: ", 1, "sha512"),
    "another platform's file": (conda.LOCK, "conda-forge/linux-64/ninja", "conda-forge/osx-64/ninja", 1, "another platform"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_conda_lock_sees(says, what):
    name, old, new, count, words = WRONG[what]
    found = says(name, old, new, count)
    assert any(words in line for line in found), found


class Solver:
    """conda-lock that answers with a lock, or fails; a solver is on PATH if it is told so."""

    def __init__(self, monkeypatch, tmp_path):
        self.code, self.asked = 0, []
        monkeypatch.setattr(conda_tool, "_run", self.run)
        serve(monkeypatch, Project(tmp_path))
        self.folder = tmp_path / "bin"
        self.folder.mkdir()
        monkeypatch.setenv("PATH", str(self.folder))

    def install(self):
        (self.folder / "micromamba").write_text("#!/bin/sh\n")
        (self.folder / "micromamba").chmod(0o755)

    def run(self, words):
        self.asked.append(words)
        if self.code == 0:
            lock = words[words.index("--lockfile") + 1]
            with open(lock, "w") as file:  # noqa: PTH123
                file.write("# solved\n")
        return subprocess.CompletedProcess(words, self.code, "", "no such channel")


@pytest.fixture
def solver(monkeypatch, tmp_path):
    (tmp_path / conda.LOCK).write_text("# before\n")
    return Solver(monkeypatch, tmp_path)


def test_a_lock_is_made_anew_where_there_is_a_solver(solver, tmp_path):
    solver.install()
    assert "solved by" in conda_tool.refresh(optional=False)
    assert (tmp_path / conda.LOCK).read_text() == "# solved\n"
    (words,) = solver.asked
    assert words[words.index("--file") + 1 : words.index("--file") + 4] == [
        conda.ENVIRONMENT, "--virtual-package-spec", conda.VIRTUAL,
    ]  # fmt: skip


def test_a_solve_that_fails_leaves_the_lock(solver, tmp_path):
    solver.install()
    solver.code = 1
    with pytest.raises(ProvisionError, match=r"(?s)as it was.*no such channel"):
        conda_tool.refresh(optional=True)
    assert (tmp_path / conda.LOCK).read_text() == "# before\n"


def test_without_a_solver_only_the_one_who_asked_for_the_lock_is_refused(solver, tmp_path):
    assert "left as it is" in conda_tool.refresh(optional=True)
    with pytest.raises(ToolMissing, match="micromamba"):
        conda_tool.refresh(optional=False)
    assert solver.asked == []


ANSWERS = """#!{python}
import json, os, sys
import yaml
if "create" not in sys.argv:
    sys.exit(print("2.8.1"))
if os.environ.get("UNREACHABLE"):
    print(json.dumps(dict(success=False, error="CondaHTTPError: HTTP 000 CONNECTION FAILED for url <conda-forge>")))
    sys.exit(1)
found = []
for one in yaml.safe_load(open({lock!r}))["package"]:
    if one["platform"] == os.environ["CONDA_SUBDIR"]:
        fn = one["url"].rpartition("/")[2]
        found.append(dict(
            name=one["name"], version=one["version"], url=one["url"], fn=fn, channel=one["url"].rpartition("/")[0],
            depends=[f"{{k}} {{v}}".strip() for k, v in one["dependencies"].items()], constrains=[],
            dist_name=fn.removesuffix(".conda").removesuffix(".tar.bz2"), build=one.get("build"), timestamp=1,
            base_url="https://conda.anaconda.org/conda-forge", platform=os.environ["CONDA_SUBDIR"], **one["hash"],
        ))
print(json.dumps(dict(success=True, actions=dict(FETCH=found, LINK=found))))
"""


@pytest.fixture
def asking(conda_lock, tree):
    """conda-lock as a person runs it on a copy of the files: what it said, and what it asked of the solver on PATH."""
    (tree / "bin").mkdir()
    program, asked = tree / "bin" / "micromamba", tree / "asked"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo 2.8.1\necho "$@" >> {asked}\nexit 1\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:/usr/bin:/bin"}

    def ask(*words: str) -> tuple[str, str]:
        command = [conda_lock, "-m", "conda_lock", *words]
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr, asked.read_text() if asked.exists() else ""

    return ask


def test_conda_lock_calls_the_lock_up_to_date_and_solves_nothing(asking, tree):
    words = ["lock", "--check-input-hash", "--conda", str(tree / "bin" / "micromamba"), "--file", conda.ENVIRONMENT]
    words += ["--virtual-package-spec", conda.VIRTUAL, "--lockfile", conda.LOCK]
    before = (tree / conda.LOCK).read_bytes()
    said, asked = asking(*words)
    assert "Spec hash already locked for ['linux-64', 'linux-aarch64']. Skipping solve." in said
    assert asked == ""
    assert (tree / conda.LOCK).read_bytes() == before
    virtual = (tree / conda.VIRTUAL).read_text()
    (tree / conda.VIRTUAL).write_text(virtual.replace('__cuda: "12.2"', '__cuda: "12.4"', 1))
    assert "create" in asking(*words)[1]  # of another machine it is not


def test_conda_lock_renders_every_package_for_each_machine(asking, tree, table):
    asking("render", "--kind", "explicit", conda.LOCK)
    for platform in conda.platforms(table):
        lines = (tree / f"conda-{platform.subdir}.lock").read_text().splitlines()
        addresses = [line for line in lines if not line.startswith("#")]
        assert addresses.pop(0) == "@EXPLICIT"
        wanted = {package.url for package in conda.locked(tree) if package.platform == platform.subdir}
        assert {address.partition("#")[0] for address in addresses} == wanted
        assert all(re.search(r"#(sha256:[0-9a-f]{64}|[0-9a-f]{32})$", address) for address in addresses)


@pytest.fixture
def answering(conda_lock, tree, monkeypatch):
    """conda-lock itself, with a solver on PATH that answers with the records of this tree's lock."""
    (tree / "bin").mkdir()
    program = tree / "bin" / "micromamba"
    program.write_text(ANSWERS.format(python=conda_lock, lock=str(ROOT / conda.LOCK)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tree / 'bin'}:/usr/bin:/bin")
    serve(monkeypatch, Project(tree))
    monkeypatch.setattr(conda_tool.environment, "ready", lambda _: conda_lock)
    return tree


def test_conda_lock_itself_makes_a_lock_that_it_then_finds_nothing_wrong_with(answering, says):
    before = {(package.platform, package.stem) for package in conda.locked(answering)}
    (answering / conda.LOCK).write_text("# of another time\n")
    assert "solved by" in conda_tool.refresh(optional=False)
    text = (answering / conda.LOCK).read_text()
    assert "kernelwright-" not in text  # no path of where it was made
    assert "assembled:" not in text
    assert {(package.platform, package.stem) for package in conda.locked(answering)} == before
    assert says() == []


def test_a_channel_that_cannot_be_reached_is_told_in_the_solvers_words(answering, monkeypatch):
    before = (answering / conda.LOCK).read_text()
    monkeypatch.setenv("UNREACHABLE", "1")
    with pytest.raises(ProvisionError) as error:
        conda_tool.refresh(optional=False)
    assert "is the channel reachable?" in str(error.value)
    assert "CONNECTION FAILED" in str(error.value)
    assert "Traceback" not in str(error.value)
    assert "INFO:" not in str(error.value)
    assert (answering / conda.LOCK).read_text() == before


def test_unknown_locks_are_named(capsys):
    from kernelwright_toolchain.commands import lock

    with pytest.raises(RequestError, match=r"no such lock: locks/none\.txt; there are .*conda-lock\.yml"):
        lock.run(_options(["locks/none.txt"]))


def _options(paths):
    import argparse

    return argparse.Namespace(check=False, paths=paths)
