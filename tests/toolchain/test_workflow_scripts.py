# SPDX-License-Identifier: MIT
"""Each `run:` of the workflows as the runner would run it, with stand-ins for what is GitHub's or too big for a test.

The runner's shell is `bash -e -o pipefail`. A verb's options are given to the verb's own parser, a file that is named
has to be there, and what publishes or compares is run.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
import tiny

from kernelwright_toolchain import targets
from kernelwright_toolchain.workflows import render
from tests.tree import ROOT

TABLE = targets.load()
_RUN = re.compile(r"^( *)(?:- )?run: (?:\|\n((?:\1 .*\n)+)|(.*))", re.MULTILINE)
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


def _script(block: str, line: str) -> str:
    return textwrap.dedent(block) if block else re.sub(r" #.*", "", line).strip("'")


SCRIPTS = {
    f"{Path(name).stem}-{place}": _script(block, line)
    for name, text in render.made(TABLE).items()
    for place, (_, block, line) in enumerate(_RUN.findall(text))
}
NAMES = list(SCRIPTS)


def holding(word: str) -> str:
    """The one script with this word."""
    (found,) = [script for script in SCRIPTS.values() if word in script]
    return found


class Runner:
    """A folder as a job finds it: programs of its own before the machine's, and a record of what they were told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs, self.log = folder / "work", folder / "bin", folder / "log"
        for path in (self.folder, self.programs, folder / "temporary"):
            path.mkdir()
        self.env = {
            "PATH": f"{self.programs}:/usr/bin:/bin", "RUNNER_TEMP": str(folder / "temporary"), "LOG": str(self.log),
            "GITHUB_OUTPUT": str(folder / "output"), "LC_ALL": "C", "TAG": "v0.1.0", "HOME": str(folder),
            "GH_REPO": "someone/it", "RELEASED": "a-target another",
        }  # fmt: skip

    def program(self, path: Path, body: str) -> None:
        path.write_text(f'#!/bin/bash\necho "{path.name} $*" >> "$LOG"\n{body}\n')
        path.chmod(0o755)

    def run(self, script: str, folder: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        command = [*SHELL, script]
        return subprocess.run(
            command, cwd=folder or self.folder, env={**self.env, **env}, capture_output=True, text=True, check=False
        )

    def told(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_one_that_bash_reads(name):
    done = subprocess.run(["bash", "-n"], input=SCRIPTS[name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "<<" not in SCRIPTS[name]


def _sessions() -> set[str]:
    module = ast.parse((ROOT / "noxfile.py").read_text())
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef) and node.decorator_list}


def _commands(program: str) -> list[str]:
    found = [re.findall(rf"(?:^|[ ;]){program} [^;\n]*", text, re.MULTILINE) for text in SCRIPTS.values()]
    return sorted({line.strip(" ;") for lines in found for line in lines})


def test_each_verb_is_one_of_kw_and_takes_its_options():
    own, inside = _commands(r"\./kw"), _commands("nox -s")  # inside conda and Nix
    assert len(own) >= 5
    assert len(inside) >= 3
    for command in [*own, *(line.replace("nox -s", "nox") for line in inside)]:
        _, verb, *rest = shlex.split(command.replace("$TARGET", "linux-aarch64"))
        assert verb in _sessions(), command
        assert rest[:1] in ([], ["--"]), command
        parser = argparse.ArgumentParser(exit_on_error=False)
        module = import_module(f"kernelwright_toolchain.commands.{verb}")
        module.add_arguments(parser)
        parser.parse_args(rest[1:])
    direct = _commands("python3 -m toolchain")
    assert {shlex.split(command)[3] for command in direct} == {"compare", "hub", "notes", "sdist"}
    for command in direct:
        _, _, _, verb, *rest = shlex.split(command)
        parser = argparse.ArgumentParser(exit_on_error=False)
        import_module(f"kernelwright_toolchain.commands.{verb}").add_arguments(parser)
        parser.parse_args(rest)


def test_each_run_of_the_tests_hears_where_torch_is(runner):
    """sudo lets no variable through that is not named, and without an index of builds for CPUs there is no torch."""
    runner.program(runner.programs / "nix", 'echo "$PIP_EXTRA_INDEX_URL"')
    kept = 'kept() { case "$1" in --preserve-env=*"$2"*) ;; *) unset "$2" ;; esac; }; '
    sudo = 'sudo() { ( kept "$1" PIP_EXTRA_INDEX_URL; shift; "$@" ); }; '
    (script,) = [text for text in SCRIPTS.values() if "nox -s tests" in text and text.startswith("sudo")]
    done = runner.run(kept + sudo + script, FLAKE="x", PIP_EXTRA_INDEX_URL="an index")
    assert (done.returncode, done.stdout) == (0, "an index\n")


@pytest.mark.parametrize("name", NAMES)
def test_each_file_of_the_tree_that_a_script_names_is_there(name):
    words = re.findall(r"(?<![\w/$.])((?:locks|tests)/[\w./-]+|[\w-]+-lock\.yml)", SCRIPTS[name])
    assert all((ROOT / word).exists() for word in words)
    if " pip install " in SCRIPTS[name]:
        for line in re.findall(r"pip install (.*)", SCRIPTS[name]):
            assert "--require-hashes" in line or "--no-index" in line


def published(folder: Path, *names: str) -> dict[str, bytes]:
    """Wheels with an SBOM at its place in them."""
    folder.mkdir(exist_ok=True)
    place = f"{tiny.INFO}sboms/kernelwright.cdx.json"
    for name in names:
        tiny.write(folder / name, {place: f'{{"of": "{name}"}}'.encode(), "kernelwright/x.py": b""})
    return {name: (folder / name).read_bytes() for name in names}


SDIST = "kernelwright-0.1.0.tar.gz"
ONE, OTHER = tiny.NAME, tiny.NAME.replace("x86_64", "aarch64")
TOOLCHAIN = "kernelwright_toolchain-0.1.0-py3-none-any.whl"  # text alone: no SBOM, nothing to make again


@pytest.mark.skipif(not shutil.which("unzip"), reason="unzip, which every hosted runner has, is not on this machine")
def test_what_is_published_has_an_sbom_for_each_wheel_and_the_sums_of_all(runner):
    dist = runner.folder / "dist"
    published(dist, ONE, OTHER)
    (dist / "SHA256SUMS").write_text("of one job alone\n")
    script = holding("sha256sum -- *")

    def with_the_sdist() -> None:
        """As the artifact of its job has it, beside the notes."""
        (dist / "dist").mkdir()
        (dist / "dist" / SDIST).write_bytes(b"an archive")
        (dist / "dist" / TOOLCHAIN).write_bytes(b"another")
        (dist / "notes.md").write_text("What is new\n")

    with_the_sdist()
    done = runner.run(script, dist)
    assert done.returncode == 0, done.stderr
    assert (dist.parent / "notes.md").read_text() == "What is new\n"
    assert (dist / SDIST).read_bytes() == b"an archive"
    assert (dist / TOOLCHAIN).read_bytes() == b"another"
    for name in (ONE, OTHER):
        assert (dist / f"{name}.cdx.json").read_text() == f'{{"of": "{name}"}}'
    sums = dict(reversed(line.split()) for line in (dist / "SHA256SUMS").read_text().splitlines())
    files = [path for path in dist.iterdir() if path.name != "SHA256SUMS"]
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    for without in ({}, {f"{tiny.INFO}sboms/kernelwright.cdx.json": b""}):
        tiny.write(dist / ONE, {"kernelwright/x.py": b"", **without})
        with_the_sdist()
        assert runner.run(script, dist).returncode != 0, "a wheel without an SBOM is published"


@pytest.mark.parametrize(("said", "output"), [("v0.2.0", "tag=v0.2.0\n"), ("", "tag=\n")])
def test_the_newest_release_is_asked_for_and_there_may_be_none(runner, said, output):
    runner.program(runner.programs / "gh", f'echo "{said}"')
    assert runner.run(holding("gh release list")).returncode == 0
    assert Path(runner.env["GITHUB_OUTPUT"]).read_text() == output


def weekly(runner: Runner, *failing: str, forged: str = "") -> int:
    """The rebuild of two published wheels; verify finds the failing ones to differ, and one may have no attestation."""
    shelf = runner.folder / "shelf"
    wheels = published(shelf, ONE, OTHER, TOOLCHAIN)
    sums = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in wheels.items()]
    (shelf / "SHA256SUMS").write_text("".join([*sums, f"{'0' * 64}  a file that is not fetched\n"]))
    fetch = 'mkdir published && cp shelf/* published/ && eval "${THEN:-true}"'
    attest = f'case "$3" in *{forged or "none"}) exit 1;; esac'
    runner.program(runner.programs / "gh", f'if [ "$1" = attestation ]; then {attest}; else {fetch}; fi')
    runner.program(runner.folder / "kw", "".join(f'case "$*" in *{name}) exit 1;; esac\n' for name in failing))
    return runner.run(holding("gh release download")).returncode


def test_each_published_wheel_is_made_again(runner):
    assert weekly(runner) == 0
    assert runner.told()[1:] == [
        *(f"gh attestation verify published/{name} --repo someone/it" for name in sorted((ONE, OTHER, TOOLCHAIN))),
        *(f"kw verify -- published/{name}" for name in sorted((ONE, OTHER))),
    ]


def test_a_wheel_that_this_repository_did_not_attest_fails_the_week(runner):
    assert weekly(runner, forged=OTHER) != 0
    assert f"kw verify -- published/{OTHER}" not in runner.told()


@pytest.mark.parametrize("failing", [ONE, OTHER])
def test_one_wheel_that_differs_fails_the_week(runner, failing):
    assert weekly(runner, failing) != 0


def test_a_wheel_that_is_not_what_its_sums_say_fails_the_week(runner):
    runner.env["THEN"] = f"echo more >> published/{ONE}"
    assert weekly(runner) != 0
    assert not any(line.startswith("kw") for line in runner.told())


@pytest.mark.parametrize("failing", ["", ONE, OTHER])
def test_a_release_is_verified_wheel_by_wheel(runner, failing):
    published(runner.folder / "published", ONE, OTHER)
    runner.program(runner.folder / "kw", f'case "$*" in *{failing or "none"}) exit 1;; esac')
    script = next(text for text in SCRIPTS.values() if text.startswith("for wheel"))
    assert (runner.run(script).returncode != 0) == bool(failing)


@pytest.mark.parametrize("honest", [True, False])
def test_micromamba_runs_only_if_it_is_the_one_that_is_pinned(runner, honest):
    script = holding('micromamba" create')
    own = runner.folder / "program"
    runner.program(own, "")
    digest = hashlib.sha256(own.read_bytes() if honest else b"another").hexdigest()
    runner.program(runner.programs / "curl", f'while [ "$1" != --output ]; do shift; done; cp "{own}" "$2"')
    done = runner.run(script, SUBDIR="linux-64", SHA256=digest)
    ran = [line for line in runner.told() if line.startswith("program")]
    assert (done.returncode == 0, len(ran)) == ((True, 1) if honest else (False, 0))
    version = render.pins()["micromamba"]["version"]
    assert any(line.endswith(f"/{version}/micromamba-linux-64") for line in runner.told())


@pytest.mark.parametrize("honest", [True, False])
def test_the_locks_are_solved_by_the_one_that_is_pinned(runner, honest):
    script = holding('>> "$GITHUB_PATH"')
    digest = hashlib.sha256(b"it" if honest else b"another").hexdigest()
    runner.program(runner.programs / "curl", 'while [ "$1" != --output ]; do shift; done; printf it > "$2"')
    path = runner.folder / "path"
    done = runner.run(script, SHA256=digest, GITHUB_PATH=str(path))
    assert (done.returncode == 0, path.exists()) == (honest, honest)
    if honest:
        assert (Path(path.read_text().strip()) / "micromamba").stat().st_mode & 0o100
    assert f"SHA256: {render.pins()['micromamba']['x86_64']}\n" in render.made(TABLE)[".github/workflows/lock.yml"]


@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.parametrize("finds", [True, False])
def test_actionlint_is_the_one_that_is_pinned_and_what_it_finds_ends_the_job(runner, honest, finds):
    script, pinned = holding("actionlint.tar.gz"), render.pins()["actionlint"]
    own = runner.folder / "actionlint"
    runner.program(own, "exit 1" if finds else "")
    archive = runner.folder / "archive"
    subprocess.run(["tar", "-czf", archive, "-C", runner.folder, "actionlint"], check=True)
    digest = hashlib.sha256(archive.read_bytes() if honest else b"another").hexdigest()
    runner.program(runner.programs / "curl", f'while [ "$1" != --output ]; do shift; done; cp "{archive}" "$2"')
    done = runner.run(script, VERSION=pinned["version"], SHA256=digest)
    ran = [line for line in runner.told() if line.startswith("actionlint")]
    assert (done.returncode == 0, len(ran)) == (honest and not finds, int(honest)), done.stderr
    assert any(
        f"/v{pinned['version']}/actionlint_{pinned['version']}_linux_amd64.tar.gz" in line for line in runner.told()
    )
    text = render.made(TABLE)[".github/workflows/ci.yml"]
    assert f"VERSION: {pinned['version']}\n          SHA256: {pinned['x86_64']}\n" in text


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_week_that_changed_a_lock_hands_on_a_patch(runner):
    """Of files that were there, and of new ones."""
    summary = runner.folder.parent / "summary"
    (runner.folder / "old.txt").write_text("one\n")
    for words in ("init -q", "add .", "-c user.name=n -c user.email=e@example.org commit -q -m one"):
        subprocess.run(["git", *words.split()], cwd=runner.folder, check=True)
    (runner.folder / "old.txt").write_text("two\n")
    (runner.folder / "new.txt").write_text("three\n")
    done = runner.run(holding("locks.patch"), GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    patch = (Path(runner.env["RUNNER_TEMP"]) / "locks.patch").read_text()
    assert "-one\n+two\n" in patch
    assert "+three\n" in patch
    assert "2 files changed" in summary.read_text()


def test_conda_hands_on_the_released_wheels_alone(runner):
    """Its own, which has a label, stays."""
    script = holding("mkdir released")
    dist = runner.folder / "dist"
    dist.mkdir()
    (dist / tiny.NAME.replace("-py3", "+conda-py3")).write_text("")
    runner.program(
        Path(runner.env["RUNNER_TEMP"]) / "micromamba", 'touch "dist/kernelwright-0.1.0-py3-none-${@: -1}.whl"'
    )
    done = runner.run(script)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (runner.folder / "released").iterdir()} == {
        f"kernelwright-0.1.0-py3-none-{target}.whl" for target in ("a-target", "another")
    }


@pytest.mark.parametrize("other", [b"one\n", b"another\n"])
def test_builds_are_compared_as_their_artifacts_lie(runner, other):
    """The real verb, on folders as download-artifact makes them: Nix has one for each wheel."""
    for folder in ("pip-a", "conda-a", "conda-b"):
        (runner.folder / "builds" / f"build-{folder}").mkdir(parents=True)
        for name in (ONE, OTHER):
            tiny.write(
                runner.folder / "builds" / f"build-{folder}" / name, tiny.sealed({"kernelwright/x.py": b"one\n"})
            )
    for kind in ("sandbox", "shell"):
        for target, name in (("x", ONE), ("a", OTHER)):
            place = runner.folder / "builds" / f"build-nix-{kind}-{target}"
            place.mkdir()
            tiny.write(place / name, tiny.sealed({"kernelwright/x.py": other if kind == "shell" else b"one\n"}))
    (runner.folder / "toolchain").symlink_to(ROOT / "toolchain")
    (runner.programs / "python3").symlink_to(sys.executable)
    summary = runner.folder / "summary"
    done = runner.run(holding("toolchain compare"), GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == (0 if other == b"one\n" else 1), done.stdout + done.stderr
    rows = [line.split(" | ")[0].strip("| ") for line in summary.read_text().splitlines()[2:]]
    assert sorted(set(rows)) == ["build-conda-a", "build-conda-b", "build-pip-a", "nix-sandbox", "nix-shell"]
    assert ("nix-shell: different" in done.stdout) == (other != b"one\n")
