# SPDX-License-Identifier: MIT
"""conda-lock, hash-locked in locks/conda.txt, in an environment of its own: it checks the conda lock and makes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelwright_toolchain import start
from kernelwright_toolchain.errors import ProvisionError, ToolMissing
from kernelwright_toolchain.locking.conda import LOCKS, VIRTUAL, Platform, platforms, sources
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import Table
from kernelwright_toolchain.testing import environment

SOLVERS = ("micromamba", "mamba", "conda")


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    python = environment.ready("conda")
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = start.command(python, project().root, *words)
    return subprocess.run(command, cwd=project().root, env=env, capture_output=True, text=True, check=False)


def problems(root: Path | None = None) -> list[str]:
    """What conda-lock finds wrong with the locks, one line each; needs no network once the environment is there."""
    root = root or project().root
    done = _run(["kernelwright_toolchain.locking.conda_check", str(root)])
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        return [f"the conda locks cannot be read by conda-lock: {last[0]}"]
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def _reason(said: str) -> str:
    """What the solver answered, without conda-lock's log and its traceback."""
    before = said.partition("Traceback (most recent call last)")[0].splitlines()
    lines = [
        line for line in before if line.strip() and not line.lstrip().startswith(("INFO:", "WARNING:", "Command:"))
    ]
    return "\n".join(lines or said.strip().splitlines())[-4000:]


def _files(one: Platform, python: str) -> list[str]:
    """What a machine's lock is solved from; a project that is not this one has no more than the machine's own."""
    return [name for name in sources(one, python) if (project().root / name).is_file()]


def _solved(table: Table, python: str, solver: str, part: Path) -> str:
    """The text of the lock with this Python."""
    # No name of PyPI's is another to conda than its own spelling; conda-lock would fetch a list that nothing pins.
    names = part.with_name("names.json")
    names.write_text("{}", encoding="utf-8")
    for one in platforms(table):  # each has a file of its own; conda-lock adds a machine to the lock that is there
        files = [word for name in _files(one, python) for word in ("--file", name)]
        files += ["--platform", one.subdir, "--virtual-package-spec", VIRTUAL, "--lockfile", str(part)]
        files += ["--pypi_to_conda_lookup_file", str(names)]
        done = _run(["conda_lock", "lock", "--conda", solver, *files])
        if done.returncode or not part.is_file():
            raise ProvisionError(
                f"{LOCKS[python]} is as it was: {solver} did not solve {one.environment} (is the channel reachable?)\n"
                f"{_reason(done.stdout + done.stderr)}"
            )
    text = part.read_text(encoding="utf-8")
    for name in {name for one in platforms(table) for name in _files(one, python)}:
        # conda-lock writes its sources relative to the lock, which is to lie beside them.
        text = text.replace(os.path.relpath(project().root / name, part.parent), name)
    return text.replace(str(part), LOCKS[python])


def refresh(table: Table, python: str, *, optional: bool) -> str:
    """Solves the environment with this Python on the channel and writes its lock, whole or not at all; says what came.

    `optional`: without a conda on PATH the lock stays as it is, instead of an error.
    """
    solver = next((path for name in SOLVERS if (path := shutil.which(name))), None)
    if solver is None:
        why = f"solving needs one of {', '.join(SOLVERS)} on PATH, and there is none"
        if optional:
            return f"left as it is: {why}"
        raise ToolMissing(f"{LOCKS[python]}: {why}; install one (they are no packages of PyPI), and run this again")
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as scratch:
        text = _solved(table, python, solver, Path(scratch) / LOCKS[python])
    (project().root / LOCKS[python]).write_text(text, encoding="utf-8")
    return f"written, solved by {solver}"
