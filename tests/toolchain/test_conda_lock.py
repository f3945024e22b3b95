# SPDX-License-Identifier: MIT
"""The conda environment's files: made from the table, satisfied by the lock, and seen to be stale when they are.

Nothing here reaches a channel. What only conda-lock can tell needs the environment that `./kw lint` makes of
locks/conda.txt.
"""

from __future__ import annotations

import http.server
import importlib.util
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import ProvisionError, RequestError, TableError, ToolMissing
from kernelwright_toolchain.locking import conda, conda_tool, wanted
from kernelwright_toolchain.testing import locked_torch
from tests.tree import ROOT, Project, serve

FILES = (*conda.made(targets.load()), *conda.LOCKS.values(), "pyproject.toml")
X86, PY312 = conda.environment_file("linux-64"), conda.LOCKS["3.12"]
LOCKS = pytest.mark.parametrize("name", conda.LOCKS.values())


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
    for platform in conda.platforms(table):
        text = (ROOT / platform.environment).read_text()
        for part in ("nvcc", "nvrtc"):
            assert f"- cuda-{part}={toolkit.components[part]}\n" in text
        assert f"- gxx_{platform.subdir}={gcc.version}\n" in text
        assert f"- sysroot_{platform.subdir}={gcc.sysroot}\n" in text
        assert "- python=3.11\n" in text
    assert f'__cuda: "{toolkit.driver.cuda}"' in (ROOT / conda.VIRTUAL).read_text()


def test_each_machine_is_asked_for_its_own_compilers_alone(table):
    """As YAML says it: a reader that is not conda-lock sees no comment."""
    names = [platform.subdir for platform in conda.platforms(table)]
    assert len(names) == 2
    for name, other in (names, reversed(names)):
        told = [line.partition("#")[0] for line in (ROOT / conda.environment_file(name)).read_text().splitlines()]
        assert f"  - {name}" in told
        assert sum(f"_{name}=" in line for line in told) == 3
        assert not any(other in line for line in told)
    for category in conda.CATEGORIES:
        assert f"\ncategory: {category}\n" in (ROOT / conda.category_file(category)).read_text()


@LOCKS
def test_every_package_is_of_its_platform_and_has_its_hash(name):
    text = (ROOT / name).read_text()
    packages = [package for package in conda.locked(name=name) if package.manager == conda.CONDA]
    assert (
        len(packages)
        == text.count("\n  manager: conda\n")
        == len(re.findall(r"^    md5: [0-9a-f]{32}$", text, re.MULTILINE))
    )
    assert len({(package.platform, package.name) for package in packages}) == len(packages)
    for package in packages:
        assert package.url.startswith("https://conda.anaconda.org/conda-forge/")
        assert package.url.split("/")[-2] in (package.platform, "noarch")
        assert package.stem.startswith(f"{package.name}-")
    assert {p.stem.rsplit("-", 2)[0] for p in packages} == {p.name for p in packages}


def test_the_locks_of_two_pythons_differ_in_what_is_pythons_alone():
    """A wheel has no byte of its Python, so a build in either says the same of its compilers."""
    first, second = (set(conda.locked(name=name)) for name in conda.LOCKS.values())
    assert {package.name for package in first ^ second} == {"python", "python_abi", "markupsafe", "torch"}
    assert {p.stem.split("-")[1][:5] for p in first ^ second if p.name == "python"} == {"3.11.", "3.12."}


@LOCKS
def test_tests_have_a_category_and_what_it_lacks_is_said(table, name, tree):
    """What everybody gets needs nothing of a category that is asked for by name."""
    found = {package.name: package.category for package in conda.locked(name=name)}
    assert {found[name] for name in ("pytest", "torch", "sympy")} == {"test"}
    assert {found[name] for name in ("python", "cuda-nvcc", "gxx_linux-64", "nox")} == {conda.MAIN}
    lacking = [line for line in conda.unlocked(table) if line.startswith(f"{name}: ")]
    assert lacking == [f"{name}: not locked: conda-lock (category dev)"]
    header = (ROOT / name).read_text().partition("version: 1\n")[0]
    assert "# Not locked: conda-lock (category dev)" in header
    (tree / name).write_text((tree / name).read_text().replace("- name: cmake\n", "- name: conda-lock\n"))
    assert f"{name}: not locked: conda-lock (category dev)" not in conda.unlocked(table, tree)


@LOCKS
def test_condas_torch_is_the_file_that_pip_is_given(table, name, tree):
    """One torch at every door: version and hash of each machine are those of locks/torch.json."""
    torches = [package for package in conda.locked(name=name) if package.name == conda.TORCH]
    assert [package.manager for package in torches] == [conda.PIP] * len(conda.platforms(table))
    version = conda.torch_version().replace("+", "%2B")
    assert all(package.url.startswith(f"{conda.TORCH_INDEX}/torch-{version}-cp3") for package in torches)
    needs = {requirement.partition("==")[0].replace("-", "_") for requirement in wanted.group("torch-needs")}
    assert needs == set(conda.TORCH_NEEDS)
    assert locked_torch.of_conda(table) == []
    text = (tree / name).read_text()
    (tree / name).write_text(text.replace(torches[1].sha256, "0" * 64))
    (told,) = locked_torch.of_conda(table, tree)
    assert told.startswith(f"{name}: linux-aarch64: torch is {'0' * 64}, and locks/torch.json has {torches[1].sha256}")


@LOCKS
def test_the_header_names_every_package_without_sha256(name):
    """That they have less than the others is said where the lock is read, and no compiler is among them."""
    header, _, body = (ROOT / name).read_text().partition("version: 1\n")
    entries = body.split("\n- name: ")[1:]
    weak = {entry.partition("\n")[0]: entry for entry in entries if "sha256:" not in entry}
    told = re.search(r"^# (\d+) packages have an md5 and no sha256.*?:\n((?:# .*\n)+?)# Their", header, re.MULTILINE)
    assert {one.strip("# .\n") for one in told[2].split(", ")} == set(weak) if told else not weak
    assert told is None or int(told[1]) == len(weak)
    assert all(re.search(r"^  url: .*/noarch/", entry, re.MULTILINE) for entry in weak.values())  # Python alone


@LOCKS
def test_the_header_says_how_and_when_it_was_assembled_as_long_as_that_is_so(name):
    header, _, body = (ROOT / name).read_text().partition("version: 1\n")
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
    (tree / X86).write_text("name: other\n")
    assert conda.problems(table, tree) == [
        f"{X86} is not what targets.toml makes it; run `python -m toolchain lock {X86}`"
    ]
    text = (tree / PY312).read_text()
    (tree / PY312).write_text(text.replace("platform: linux-aarch64", "platform: linux-64"))
    assert f"{PY312} has no package for linux-aarch64" in conda.problems(table, tree)[-1]
    (tree / PY312).unlink()
    assert f"{PY312} is missing" in conda.problems(table, tree)[-1]


def test_two_reference_toolkits_are_no_one_environment(table):
    text = (ROOT / "targets.toml").read_text()
    second = text.replace('toolkit = "cu122"', 'toolkit = "cu124"', 1)
    with pytest.raises(TableError, match=r"one toolkit.*'cu122', 'cu124'"):
        conda.toolkit(targets.parse(second))


def test_conda_lock_finds_nothing_wrong(says):
    assert says() == []


WRONG = {  # file, what is replaced, by what, how often -> what conda-lock's own models, hash and matcher say
    "another request": (X86, "  - ninja\n", "  - ninja=1.13\n", 1, "was locked for another"),
    "another Python": ("environment-py312.yml", "python=3.12", "python=3.13", 1, "conda-py312-lock.yml: linux-64 was locked"),
    "another machine": (conda.VIRTUAL, '__glibc: "2.28"', '__glibc: "2.17"', 1, "was locked for another"),
    "another version": (conda.LOCK, "- name: cuda-nvcc\n  version: 12.2.140", "- name: cuda-nvcc\n  version: 12.4.131", 1,
                        "environment-linux-64.yml wants cuda-nvcc 12.2.140"),
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
    yield address
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
