# SPDX-License-Identifier: MIT
"""A build in a copy of the inputs, with the tools hard-linked beside them, under given conditions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernelwright_toolchain import orphans, source, start
from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.errors import CompileError
from kernelwright_toolchain.exact.conditions import CLONED, NOTED, SCRIPT, Conditions, Python, faketime
from kernelwright_toolchain.files import about_trust, link_or_copy, make_private
from kernelwright_toolchain.locking import conda
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import environment, host, machine_of, pip
from kernelwright_toolchain.providers.host import HostTools
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.wheel.__main__ import ANSWER
from kernelwright_toolchain.wheel.recipe import ENVIRONMENTS

# What a system's compilers are found by, and what ends a build together with this process.
_PASSED = ("PATH", "CUDA_HOME", "CUDA_PATH", "CUDAHOSTCXX", "NVCC_CCBIN", "LD_LIBRARY_PATH", orphans.VARIABLE)
# For an interpreter whose zlib is of the same release: a stand-in for one that packs otherwise at the same level.
_OTHER_ZLIB = """
import runpy, sys, zlib
_real = zlib.compressobj
def compressobj(level=-1, *rest, **named):
    return _real(1, *rest, **named)
zlib.compressobj = compressobj
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory beside the tools, so that they can be linked; what an interrupted run left there is swept up.

    Its name is always the same one, for zig's cache, which knows the paths of what it compiled.
    """
    home = project().state / "exact"
    with pip.locked(
        project().state / "exact.lock", "another process is rebuilding in this tree; waiting for it to finish"
    ):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        try:
            yield home
        finally:
            shutil.rmtree(home, ignore_errors=True)


def provision(tree: Path, settings: Mapping[str, str], python: Python) -> list[Path]:
    """The directories of locked tools that a build of this tree by this interpreter needs, fetched if missing.

    None for an environment's own tools: they are where they are, and this must run inside it.
    """
    if settings["provider"] in environment.HOW:
        return []
    table = load(tree / "targets.toml")
    machine = machine_of(table)
    tools = tree / table.tools.locks[machine]
    place = pip.home(tools, per_python=True)
    place = place.with_name(place.name.removesuffix(sys.implementation.cache_tag) + python.tag)
    if not place.is_dir() and python.tag != sys.implementation.cache_tag:
        command = start.command(python.path, project().root, "kernelwright_toolchain", "provision")
        done = subprocess.run(command, cwd=project().root, capture_output=True, text=True, check=False)
        if done.returncode or not place.is_dir():
            raise CompileError(f"{python.path} could not provision its tools:\n{done.stdout}{done.stderr}")
    found = [place if place.is_dir() else pip.install(tools, per_python=True)]
    if settings["provider"] == "pip":
        found.append(pip.install(tree / table.toolkits[settings["toolkit"]].locks[machine]))
    return found


def _of_environment(settings: Mapping[str, str]) -> HostTools:
    return host.tools(load(), settings["provider"])


def _tell_of_a_commit(copy: Path, history: str) -> None:
    """As in a tarball nothing does, in an sdist a note, in a clone git: no byte of a wheel may depend on it."""
    if history == NOTED:
        (copy / source.NOTE).write_bytes(source.Source("f" * 40, True, "0" * 64).note())
    if history == CLONED:
        git = ["git", "-C", str(copy), "-c", "user.name=k", "-c", "user.email=k@example.org", "-c", "commit.gpgsign=no"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "none of the files"]):
            subprocess.run([*git, *words], check=True, capture_output=True)


def lay_out(tree: Path, place: Path, tools: Sequence[Path], conditions: Conditions, *, backwards: bool) -> Path:
    """The inputs of `tree` and nothing else, dated as the conditions say, in a new directory; the tools beside them.

    Without tools it is an environment's build, which knows the environment by its lock.
    """
    copy = place / conditions.folder
    files = list(source.input_files(tree))
    files += [] if tools else [tree / lock for lock in {*ENVIRONMENTS.values(), *conda.LOCKS.values()}]
    for path in reversed(files) if backwards else files:
        to = copy / path.relative_to(tree)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
        os.utime(to, (conditions.inputs_dated, conditions.inputs_dated))
    _tell_of_a_commit(copy, conditions.history)
    for tool in tools:
        shutil.copytree(tool, copy / ".kw" / "tools" / tool.name, symlinks=True, copy_function=link_or_copy)
    for name in ("home", "temporary", "cache", "patch"):
        make_private(place / conditions.user / name)
    if conditions.other_zlib:
        (place / conditions.user / "patch" / "other_zlib.py").write_text(_OTHER_ZLIB, encoding="utf-8")
    return copy


def _environment(copy: Path, conditions: Conditions, tools: HostTools, cached: bool) -> dict[str, str]:
    own = copy.parent / conditions.user
    cache = cache_dir() if cached and not about_trust(cache_dir()) else own / "cache"
    env = {name: os.environ[name] for name in _PASSED if name in os.environ}
    modules = [own / "patch", *tools.modules]
    programs = [*tools.programs, env.get("PATH", os.defpath)]
    env |= {
        "PATH": os.pathsep.join(map(str, programs)), start.MODULES: start.joined(modules),
        "HOME": str(own / "home"), "USER": conditions.user,
        "LOGNAME": conditions.user, "TMPDIR": str(own / "temporary"), "TZ": conditions.zone,
        "LC_ALL": conditions.locale, "LANG": conditions.locale, "KERNELWRIGHT_CACHE": str(cache),
        "ZIG_GLOBAL_CACHE_DIR": str(cache / "zig"), "ZIG_LOCAL_CACHE_DIR": str(cache / "zig"),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(conditions.jobs),
    }  # fmt: skip
    env |= conditions.stray
    if tools.zig is None:  # an environment's
        env |= environment.carried()
    if conditions.epoch:
        env["SOURCE_DATE_EPOCH"] = conditions.epoch
    library = faketime()
    if conditions.clock and library:
        env |= {"LD_PRELOAD": str(library), "FAKETIME": conditions.clock, "NO_FAKE_STAT": "1"}
    return env


def build(
    copy: Path,
    settings: Mapping[str, str],
    conditions: Conditions,
    tools: Sequence[Path],
    out: Path,
    *,
    cached: bool = False,
) -> Path:
    """The wheel that this copy gives under these conditions; CompileError with the whole log if it gives none.

    `cached`: with this tree's own compile cache instead of an empty one.
    """
    request = {"settings": settings, "build_dir": str(copy / "build"), "out": str(out), "jobs": conditions.jobs}
    out.mkdir(parents=True, exist_ok=True)
    words = ["other_zlib"] if conditions.other_zlib else []
    command = start.command(conditions.python.path, copy, *words, "kernelwright_toolchain.wheel", json.dumps(request))
    given = {"uid": conditions.uid, "host": conditions.host, "umask": conditions.umask, "command": command}
    given_tools = host.pip_set(copy / ".kw" / "tools" / tools[0].name) if tools else _of_environment(settings)
    env = _environment(copy, conditions, given_tools, cached)
    done = subprocess.run(
        [conditions.python.path, "-I", str(SCRIPT), json.dumps(given)],
        cwd=copy, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    answers = [line for line in done.stdout.splitlines() if line.startswith(ANSWER)]
    if done.returncode or not answers:
        raise CompileError(f"the build in {copy} failed (exit code {done.returncode}):\n{done.stdout[-12000:]}")
    return out / answers[-1].removeprefix(ANSWER).strip()
