# SPDX-License-Identifier: MIT
"""The workflow that `kwt ci` writes: its scripts are run, with stand-ins for kwt, sudo and GitHub's programs."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from test_workflow_tools import AUDITOR, BESIDE, SCHEMA

from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.verbs import ci
from tests.tree import ROOT

SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
TARGETS = ("linux-x86_64", "linux-aarch64")
KWT = """[ "$1" = gates ] && exec echo gates "$2"
while [ $# -gt 0 ]; do case $1 in --out) out=$2 ;; --target) target=$2 ;; esac; shift; done
mkdir -p "$out"
echo "built for $target" > "$out/mine-1-py3-none-${NAME:-$target}.whl"
"""


@pytest.fixture(scope="module")
def text() -> str:
    own = Settings(ROOT, "mine", "1", targets=TARGETS, kernels={"a": {}})
    return ci.texts(own, ROOT, "main")[ci.WORKFLOW]


@pytest.fixture
def run(text, tmp_path):
    """Runs the script of the workflow that has this word."""
    place, programs = tmp_path / "work", tmp_path / "temporary" / "kwt" / "bin"
    for path in (place, programs, tmp_path / "bin"):
        path.mkdir(parents=True)
    for path, body in ((programs / "kwt", KWT), (tmp_path / "bin" / "sudo", 'exec "$@"')):
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    blocks = re.findall(r"^( *)(?:- )?run: \|\n((?:\1 .*\n)+)", text, re.MULTILINE)
    env = {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path / "temporary"),
        "TARGETS": re.search(r"TARGETS: (.+)", text)[1], "MOST": re.search(r"MOST: (\d+)", text)[1], "LC_ALL": "C",
    }  # fmt: skip

    def act(word: str, **more: str) -> subprocess.CompletedProcess[str]:
        (script,) = [textwrap.dedent(block) for _, block in blocks if word in block]
        command = [*SHELL, script]
        return subprocess.run(command, cwd=place, env=env | more, capture_output=True, text=True, check=False)

    act.place = place
    return act


def built(run, **more: str) -> Path:
    """Both runs, as they are downloaded."""
    for name in ("first", "second"):
        done = run("--require-exact", **more)
        assert done.returncode == 0, done.stderr
        (run.place / "dist").rename(run.place / name)
    return run.place


def test_one_runner_builds_every_target_and_says_what_disk_that_took(run):
    done = run("--require-exact")
    assert done.returncode == 0, done.stderr
    assert {path.parent.name for path in run.place.rglob("*.whl")} == set(TARGETS)
    assert done.stdout.count("gates dist/") == len(TARGETS)
    assert re.search(r"^-?\d+ MB of disk$", done.stdout, re.MULTILINE)
    # A machine that is used by others too gives and takes: of a limit below zero it is sure.
    assert run("--require-exact", MOST="-100000000").returncode == 1


def test_equal_runs_are_one_folder_with_sums(run):
    place = built(run)
    done = run("mv --no-clobber")
    assert done.returncode == 0, done.stderr + done.stdout
    names = sorted(f"mine-1-py3-none-{target}.whl" for target in TARGETS)
    assert sorted(path.name for path in (place / "wheels").iterdir()) == ["SHA256SUMS", *names]
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=place / "wheels", capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("how", ["other bytes", "one more", "one less"])
def test_runs_that_differ_end_the_job(run, how):
    place = built(run)
    wheel = next((place / "second").rglob("*.whl"))
    if how == "other bytes":
        wheel.write_text("others")
    elif how == "one more":
        (wheel.parent / "another-1-py3-none-any.whl").write_text("one")
    else:
        wheel.unlink()
    assert run("mv --no-clobber").returncode != 0
    assert not (place / "wheels" / "SHA256SUMS").exists()


def test_two_targets_whose_wheels_have_one_name_end_the_job(run):
    built(run, NAME="any")
    assert run("mv --no-clobber").returncode != 0


def test_each_job_has_the_rights_that_it_needs_and_runs_after_those_it_rests_on(text):
    jobs = dict(re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", text.partition("\njobs:\n")[2], re.MULTILINE))
    assert list(jobs) == ["build", "compare", "install", "publish"]
    assert [re.findall(r"needs: (\w+)", body) for body in jobs.values()] == [[], ["build"], ["compare"], ["install"]]
    assert [name for name, body in jobs.items() if "write" in body.partition("steps:")[0]] == ["publish"]
    assert "sh install.sh wheels" in jobs["install"]
    assert jobs["publish"].index("attest-build-provenance") < jobs["publish"].index("gh release upload")


@pytest.mark.skipif(not BESIDE.is_file(), reason="zizmor and check-jsonschema are not here: `./kw lint` has them")
@pytest.mark.parametrize("command", [AUDITOR, SCHEMA], ids=["auditor", "schema"])
def test_github_and_an_auditor_find_nothing(text, tmp_path, command):
    path = tmp_path / ".github" / "workflows" / "wheels.yml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
