# SPDX-License-Identifier: MIT
"""`./kw install` behind its options: a wheel that is offered if it is the right one, else one that is built here."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain import source
from kernelwright_toolchain.building import clean
from kernelwright_toolchain.building.options import Options
from kernelwright_toolchain.building.place import Place
from kernelwright_toolchain.building.prebuilt import take, wanted
from kernelwright_toolchain.building.run import build
from kernelwright_toolchain.errors import GateError, RequestError, WheelRefused
from kernelwright_toolchain.exact import wheel as wheels
from kernelwright_toolchain.files import given
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.request import DEFAULT_PROVIDER, Request, resolve
from kernelwright_toolchain.targets import Table

KEPT = "wheels"  # what was taken; dist/ has what was made here
_OPEN = ("locked", "auto")  # providers that are decided only for a build


@dataclass(frozen=True)
class Got:
    """A wheel and, in words, where it is from and why from there."""

    wheel: Path
    words: str


def request_of(options: Options, table: Table) -> Request:
    """What is asked for, as far as a wheel's name says it; the compilers for it need not be here."""
    settings = options.settings()
    provider = DEFAULT_PROVIDER if options.provider in _OPEN else options.provider
    return resolve(
        table, target=options.target, toolkit=options.toolkit, archs=options.archs, ops=options.ops, provider=provider,
        debug=settings["debug"] == "yes",
    )  # fmt: skip


def _made_from(path: Path) -> str:
    """Its sources, in words."""
    try:
        made = wheels.read(path).recipe["source"]["sha256"]
    except RequestError:
        return "it does not say what it was made from"
    if made == source.state(project().root).sha256:
        return "made from the sources of this tree"
    return f"made from other sources (sha256 {made:.16}…) than this tree holds now"


def get(options: Options, table: Table, place: str | None, version: str | None, sha256: str | None) -> Got:
    """The wheel that the options mean: from the place if it has it, else built."""
    why = "no --from was given"
    if place is not None:
        want = wanted(request_of(options, table), version, sha256)
        Place(place).check()
        taken, why = take(Place(place), want, project().state / KEPT)
        if taken is not None:
            return Got(taken, f"prebuilt: {why}; {_made_from(taken)}")
    own = build_version_of(options, table)
    if version not in (None, own):
        raise RequestError(
            f"version {version} was asked for, and {why}. This tree is {own}: check {version} out to build it"
        )
    print(f"building: {why}", flush=True)
    made = build(options, table).wheel
    digest = wheels.read(made).sha256
    if sha256 not in (None, digest):
        raise WheelRefused(f"{made.name} was built here with sha256 {digest}, and {sha256} was asked for")
    return Got(made, f"built here: {why}")


def build_version_of(options: Options, table: Table) -> str:
    return wanted(request_of(options, table), None, None).version.partition("+")[0]


def environment(named: str | None) -> Path | None:
    """The Python to install into: the named one, or that of the named environment, else that of the active one.

    None if none is active; RequestError if there is none by the name, before anything is built for it.
    """
    if named:
        place = given(named)
        found = shutil.which(place / "bin" / "python" if place.is_dir() else place) or shutil.which(named)
        if found is None:
            raise RequestError(f"--python {named} is neither an interpreter nor an environment with bin/python in it")
        return Path(found)
    home = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return Path(home) / "bin" / "python" if home else None


def install(path: Path, python: Path, request: Request) -> str:
    """Installs the wheel and lets it check itself there; what it said last."""
    if request.target.machine != platform.machine():
        raise RequestError(
            f"{path.name} is for {request.target.machine}, and this machine is {platform.machine()}; it lies in "
            f"{path.parent}, to be copied there"
        )
    how = ["install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", str(path)]
    pip.run_pip(["--python", str(python), *how], f"installing {path.name} into {python}")
    command = [str(python), "-I", "-m", "kernelwright", "doctor", "--self"]
    done = subprocess.run(command, env=clean.environment(), capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        raise GateError(f"{path} was installed, but its self-check failed (exit code {done.returncode}):\n{said}")
    return said.splitlines()[-1]
