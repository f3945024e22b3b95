# SPDX-License-Identifier: MIT
"""The conda environment's files: made from the table, satisfied by the lock, and seen to be stale when they are.

Nothing here reaches a channel. What only conda-lock can tell needs the environment that `./kw lint` makes of
locks/conda.txt. How a lock is made is in test_conda_solve.py.
"""

from __future__ import annotations

import re

import conda_support
import pytest
from conda_support import PY312, X86

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import TableError
from kernelwright_toolchain.locking import conda, wanted
from kernelwright_toolchain.testing import locked_torch
from tests.tree import ROOT

LOCKS = pytest.mark.parametrize("name", conda.LOCKS.values())


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
