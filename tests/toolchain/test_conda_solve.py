# SPDX-License-Identifier: MIT
"""A conda lock is made anew: by conda-lock itself, with stand-ins for the solver and for the index that has torch.

Nothing here reaches a channel. What needs conda-lock needs the environment that `./kw lint` makes of locks/conda.txt.
"""

from __future__ import annotations

import http.server
import io
import itertools
import os
import re
import shutil
import subprocess
import threading
import zipfile

import conda_support
import pytest
from conda_support import X86

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import ProvisionError, RequestError, ToolMissing
from kernelwright_toolchain.locking import conda, conda_tool
from kernelwright_toolchain.testing import locked_torch
from tests.tree import ROOT, Project, serve


@pytest.fixture(scope="module")
def table():
    return targets.load()


@pytest.fixture
def tree(tmp_path):
    return conda_support.copied(tmp_path)


@pytest.fixture(scope="module")
def conda_lock():
    return conda_support.interpreter()


@pytest.fixture
def says(conda_lock, tree):
    return conda_support.asker(conda_lock, tree)


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
            (self.folder / words[words.index("--lockfile") + 1]).write_text("# solved\n")
        return subprocess.CompletedProcess(words, self.code, "", "no such channel")


@pytest.fixture
def solver(monkeypatch, tmp_path, table):
    (tmp_path / conda.LOCK).write_text("# before\n")
    for name in conda.made(table):
        (tmp_path / name).touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return Solver(monkeypatch, tmp_path)


@pytest.mark.parametrize("python", conda.LOCKS)
def test_a_lock_is_made_anew_where_there_is_a_solver(solver, tmp_path, table, python):
    """One machine after the other, each from its own file, with the categories; of two Pythons the later one holds."""
    solver.install()
    assert "solved by" in conda_tool.refresh(table, python, optional=False)
    assert (tmp_path / conda.LOCKS[python]).read_text() == "# solved\n"
    for words, platform in zip(solver.asked, conda.platforms(table), strict=True):
        files = [word for before, word in itertools.pairwise(words) if before == "--file"]
        other = ["environment-py312.yml"] if python == "3.12" else []
        assert files == [platform.environment, *other, "environment-test.yml", "environment-dev.yml"]
        assert words[words.index("--platform") + 1] == platform.subdir
        assert words[words.index("--virtual-package-spec") + 1] == conda.VIRTUAL
        assert "--pypi_to_conda_lookup_file" in words


def test_another_projects_lock_is_made_of_its_machines_files_alone(solver, tmp_path, table):
    solver.install()
    for name in set(conda.made(table)) - {one.environment for one in conda.platforms(table)}:
        (tmp_path / name).unlink()
    conda_tool.refresh(table, "3.11", optional=False)
    for words, platform in zip(solver.asked, conda.platforms(table), strict=True):
        assert [word for before, word in itertools.pairwise(words) if before == "--file"] == [platform.environment]


def test_a_solve_that_fails_leaves_the_lock(solver, tmp_path, table):
    solver.install()
    solver.code = 1
    with pytest.raises(ProvisionError, match=r"(?s)as it was.*no such channel"):
        conda_tool.refresh(table, "3.11", optional=True)
    assert (tmp_path / conda.LOCK).read_text() == "# before\n"


def test_without_a_solver_only_the_one_who_asked_for_the_lock_is_refused(solver, table):
    assert "left as it is" in conda_tool.refresh(table, "3.11", optional=True)
    with pytest.raises(ToolMissing, match="micromamba"):
        conda_tool.refresh(table, "3.11", optional=False)
    assert solver.asked == []


# What a channel has and this tree's lock has not yet.
MORE = {"conda-lock": "dev"}
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
    if one["platform"] == os.environ["CONDA_SUBDIR"] and one["manager"] == "conda":
        fn = one["url"].rpartition("/")[2]
        found.append(dict(
            name=one["name"], version=one["version"], url=one["url"], fn=fn, channel=one["url"].rpartition("/")[0],
            depends=[f"{{k}} {{v}}".strip() for k, v in one["dependencies"].items()], constrains=[],
            dist_name=fn.removesuffix(".conda").removesuffix(".tar.bz2"), build=one.get("build"), timestamp=1,
            base_url="https://conda.anaconda.org/conda-forge", platform=os.environ["CONDA_SUBDIR"], **one["hash"],
        ))
for name in {more!r}:
    base = "https://conda.anaconda.org/conda-forge"
    found.append(dict(
        name=name, version="1.0", url=f"{{base}}/noarch/{{name}}-1.0-0.conda", fn=f"{{name}}-1.0-0.conda", build="0",
        channel=f"{{base}}/noarch", depends=["python"], constrains=[], dist_name=f"{{name}}-1.0-0", timestamp=1,
        base_url=base, platform="noarch", md5="0" * 32, sha256="0" * 64,
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
    (tree / "names.json").write_text("{}")
    words = ["lock", "--check-input-hash", "--conda", str(tree / "bin" / "micromamba"), "--file", X86]
    words += ["--file", conda.category_file("test"), "--platform", "linux-64"]
    words += ["--pypi_to_conda_lookup_file", "names.json"]
    words += ["--virtual-package-spec", conda.VIRTUAL, "--lockfile", conda.LOCK]
    before = (tree / conda.LOCK).read_bytes()
    said, asked = asking(*words)
    assert "Spec hash already locked for ['linux-64'" in said
    assert "Skipping solve." in said
    assert asked == ""
    assert (tree / conda.LOCK).read_bytes() == before
    virtual = (tree / conda.VIRTUAL).read_text()
    (tree / conda.VIRTUAL).write_text(virtual.replace('__cuda: "12.2"', '__cuda: "12.4"', 1))
    assert "create" in asking(*words)[1]  # of another machine it is not


def test_conda_lock_renders_every_package_for_each_machine(asking, tree, table):
    asking("render", "--kind", "explicit", "--extras", "test", conda.LOCK)
    for platform in conda.platforms(table):
        lines = (tree / f"conda-{platform.subdir}.lock").read_text().splitlines()
        addresses = [line for line in lines if not line.startswith("#")]
        assert addresses.pop(0) == "@EXPLICIT"
        here = [package for package in conda.locked(tree) if package.platform == platform.subdir]
        assert {one.partition("#")[0] for one in addresses} == {p.url for p in here if p.manager == conda.CONDA}
        (torch,) = [package for package in here if package.manager == conda.PIP]
        assert f"# pip torch @ {torch.url}#sha256={torch.sha256}" in lines
        assert all(re.search(r"#(sha256:[0-9a-f]{64}|[0-9a-f]{32})$", address) for address in addresses)


class Index(http.server.BaseHTTPRequestHandler):
    """A package index with the torch of this tree's lock, by name and hash, and what it needs; each file is a tiny one."""

    def do_GET(self):
        _, name, file = self.path.split("/")
        here = [one for one in conda.locked(ROOT) if one.name.replace("_", "-") == name]
        files = {f"{name}-{one.stem.split('-')[-2]}-py3-none-any.whl": "0" * 64 for one in here}
        if name == conda.TORCH:
            files = {one.url.rpartition("/")[2]: one.sha256 for one in here}
        links = "".join(f'<a href="{file}#sha256={digest}">{name}</a>' for file, digest in files.items())
        body = self.wheel(*file.split("-")[:2]) if file else links.encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "application/octet-stream" if file else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def wheel(self, name, version):
        needs = "".join(f"Requires-Dist: {need}\n" for need in conda.TORCH_NEEDS) if name == conda.TORCH else ""
        version = version.replace("%2B", "+")
        with io.BytesIO() as memory:
            with zipfile.ZipFile(memory, "w") as made:
                about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
                made.writestr(f"{name}-{version}.dist-info/METADATA", about)
            return memory.getvalue()

    def log_message(self, *_):
        pass


@pytest.fixture
def torch_index(tree, monkeypatch):
    """The tree's request for torch goes to this index, and to no other."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    path = tree / conda.category_file("test")
    path.write_text(path.read_text().replace(conda.TORCH_INDEX, f"{address}\nallow-pypi-requests: false"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tree / "cache"))
    yield
    server.shutdown()
    server.server_close()


@pytest.fixture
def answering(conda_lock, tree, monkeypatch, torch_index):
    """conda-lock itself, with a solver on PATH that answers with the records of this tree's lock."""
    (tree / "bin").mkdir()
    program = tree / "bin" / "micromamba"
    program.write_text(ANSWERS.format(python=conda_lock, lock=str(ROOT / conda.LOCK), more=list(MORE)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tree / 'bin'}:/usr/bin:/bin")
    serve(monkeypatch, Project(tree))
    monkeypatch.setattr(conda_tool.environment, "ready", lambda _: conda_lock)
    return tree


def test_conda_lock_itself_makes_a_lock_that_it_then_finds_nothing_wrong_with(answering, says, table):
    before = {(package.platform, package.stem) for package in conda.locked(answering)}
    (answering / conda.LOCK).write_text("# of another time\n")
    assert "solved by" in conda_tool.refresh(table, "3.11", optional=False)
    text = (answering / conda.LOCK).read_text()
    assert "kernelwright-" not in text  # no path of where it was made
    assert "assembled:" not in text
    made = conda.locked(answering)
    assert {(one.platform, one.stem) for one in made if one.name not in MORE} == before
    asked = {one.name: one.category for one in made if one.category != conda.MAIN}
    assert {"pytest": "test", "torch": "test", **MORE}.items() <= asked.items()
    assert not any(line.startswith(f"{conda.LOCK}: ") for line in conda.unlocked(table, answering))
    for name in (X86, *map(conda.category_file, conda.CATEGORIES)):
        assert f"\n  - {name}\n" in text
    assert {one.sha256 for one in made if one.name == conda.TORCH} <= set(
        locked_torch.known()[conda.torch_version()].values()
    )
    assert not any(line.startswith(conda.LOCK) for line in says())  # the other lock is of the request as it was


def test_a_channel_that_cannot_be_reached_is_told_in_the_solvers_words(answering, monkeypatch, table):
    before = (answering / conda.LOCK).read_text()
    monkeypatch.setenv("UNREACHABLE", "1")
    with pytest.raises(ProvisionError) as error:
        conda_tool.refresh(table, "3.11", optional=False)
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
