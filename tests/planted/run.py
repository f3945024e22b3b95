# SPDX-License-Identifier: MIT
"""Plants each fault of faults.toml in a copy, and sees a test find it.

    python -m tests.planted.run [--only TEXT] [--in package|tree|build] [--list] [--write]

By the Python of a test environment (.kw/environments/tests-*), with kernelwright installed. Faults of Python code and of
the toolchain take seconds, as do those of device code, which the emulator compiles out of the tree that the tests lie
in; those of `build` make a wheel of a copy first, minutes for the first one. --write records in found.toml which test
found each.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
FOUND = Path(__file__).with_name("found.toml")
HEAD = """\
# SPDX-License-Identifier: MIT
# Made by `python -m tests.planted.run --write`: the test that found each fault of faults.toml, the first of those it names.
"""
# Of .kw, what a build in a copy uses and does not write to; zig writes into its cache.
_SHARED = ("tools/*", "nox-*", "environments/*", "cache/virtualenv", "cache/images")
_OWN = ("cache/zig",)
_FAILED, _PASSED = 1, 0  # exit codes of pytest
_NAMED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?(?:\[.*\])?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]
    where: str = "package"

    def planted(self, text: str) -> str:
        if text.count(self.find) != 1:
            raise SystemExit(f"{self.name}: {self.file} has what it replaces {text.count(self.find)} times, not once")
        return text.replace(self.find, self.put)


def faults() -> Iterator[Fault]:
    for row in tomllib.loads(FAULTS.read_text(encoding="utf-8"))["fault"]:
        yield Fault(row["name"], row["file"], row["find"], row["put"], tuple(row["tests"]), row.get("in", "package"))


def _tracked() -> list[str]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@dataclass(frozen=True)
class Answer:
    """pytest's exit code, and the test that failed first."""

    code: int
    test: str = ""

    @classmethod
    def of(cls, code: int, said: str) -> Answer:
        named = _NAMED.search(said)
        return cls(code, named[1] if named else "")

    def __str__(self) -> str:
        if self.code == _FAILED and self.test:
            return "found"
        return "MISSED" if self.code == _PASSED else f"NOT TESTED (exit code {self.code})"


def _environment(more: Path | None, root: Path) -> dict[str, str]:
    """As ./kw tests has it where that matters: the locked compiler, compiled images and objects, the tree's modules."""
    path = os.pathsep.join(str(one) for one in (more, root / "toolchain") if one)
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    env.setdefault("KERNELWRIGHT_CACHE", str(ROOT / ".kw" / "cache"))
    zig = next((ROOT / ".kw" / "tools").glob("*/ziglang/zig"), None)
    cache = str(ROOT / ".kw" / "cache" / "zig")
    return {**({"KW_ZIG": str(zig), "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache} if zig else {}), **env}


def _pytest(fault: Fault, root: Path, more: Path | None = None) -> Answer:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *fault.tests]
    done = subprocess.run(command, cwd=root, env=_environment(more, root), capture_output=True, text=True, check=False)
    return Answer.of(done.returncode, done.stdout)


def _in_package(fault: Fault, folder: Path) -> Answer:
    """The tests of this tree on a copy of the package that stands first."""
    spec = importlib.util.find_spec("kernelwright")
    if spec is None or spec.origin is None:
        raise SystemExit("kernelwright is not installed for this Python: ./kw tests makes an environment that has it")
    shutil.copytree(Path(spec.origin).parent, folder / "kernelwright")
    path = folder / fault.file.removeprefix("src/")
    # The tree's own file, so that an older installation is no matter.
    path.write_text(fault.planted((ROOT / fault.file).read_text(encoding="utf-8")), encoding="utf-8")
    return _pytest(fault, ROOT, folder)


def _copy(folder: Path) -> None:
    for name in _tracked():
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to)


def _plant(fault: Fault, folder: Path) -> None:
    path = folder / fault.file
    path.write_text(fault.planted(path.read_text(encoding="utf-8")), encoding="utf-8")


def _in_tree(fault: Fault, folder: Path) -> Answer:
    _copy(folder)
    (folder / ".kw").mkdir()
    for name in ("tools", "cache"):
        if (ROOT / ".kw" / name).is_dir():
            (folder / ".kw" / name).symlink_to(ROOT / ".kw" / name)
    _plant(fault, folder)
    return _pytest(fault, folder)


@cache
def _built_copy() -> Path:
    """One copy for all faults of this kind, which so are built on top of each other."""
    folder = Path(tempfile.mkdtemp(prefix="kw-planted-build-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _copy(folder)
    for pattern in (*_SHARED, *_OWN):
        for path in (ROOT / ".kw").glob(pattern):
            to = folder / ".kw" / path.relative_to(ROOT / ".kw")
            to.parent.mkdir(parents=True, exist_ok=True)
            if pattern in _OWN or "environments" in path.parts:
                shutil.copytree(path, to, symlinks=True)
            else:
                to.symlink_to(path)
    return folder


def _in_build(fault: Fault, _: Path) -> Answer:
    """By ./kw tests, whose environment is the copy's own."""
    folder = _built_copy()
    _plant(fault, folder)
    try:
        command = [sys.executable, str(folder / "kw"), "tests", "--", "-q", "-x", *fault.tests]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    finally:
        shutil.copy2(ROOT / fault.file, folder / fault.file)
        os.utime(folder / fault.file)  # newer than what was made of the other
    # A build that refuses the fault finds it too, but is no test of it.
    return Answer.of(_FAILED if done.returncode and " failed" in done.stdout else done.returncode and 2, done.stdout)


def recorded() -> dict[str, str]:
    """By fault the test that found it, as found.toml has it."""
    return dict(tomllib.loads(FOUND.read_text(encoding="utf-8"))) if FOUND.is_file() else {}


def _write(found: dict[str, str]) -> None:
    rows = {fault.name: found[fault.name] for fault in faults() if fault.name in found}
    lines = [f"{json.dumps(name)} = {json.dumps(test)}" for name, test in rows.items()]
    FOUND.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


_WAYS = {"package": _in_package, "tree": _in_tree, "build": _in_build}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted.run", description=__doc__)
    parser.add_argument("--only", default="", help="faults whose names have this text")
    parser.add_argument("--in", dest="where", choices=_WAYS, help="faults of one kind")
    parser.add_argument("--list", action="store_true", help="names them")
    parser.add_argument("--write", action="store_true", help="records in found.toml which test found each")
    options = parser.parse_args()
    chosen = [one for one in faults() if options.only in one.name and options.where in (None, one.where)]
    missed = 0
    for fault in chosen:
        if options.list:
            print(f"{fault.where:8} {fault.name}")
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kw-planted-") as folder:
            answer = _WAYS[fault.where](fault, Path(folder))
        missed += str(answer) != "found"
        print(f"{answer!s:7} {fault.name}  {time.monotonic() - start:.0f} s  {answer.test}", flush=True)
        if options.write and str(answer) == "found":
            _write({**recorded(), fault.name: answer.test})
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
