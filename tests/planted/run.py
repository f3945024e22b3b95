# SPDX-License-Identifier: MIT
"""Plants each fault of faults.toml in a copy, and sees a test find it.

    python -m tests.planted.run [--only TEXT] [--in package|tree|build] [--list]

By the Python of a test environment (.kw/environments/tests-*), with kernelwright installed. `package` faults take
seconds; those of `build` make a wheel of a copy of this tree first, some minutes each.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
# Of .kw, what a build in a copy uses and does not write to; zig writes into its cache.
_SHARED = ("tools/*", "nox-*", "environments/*", "cache/virtualenv", "cache/images")
_OWN = ("cache/zig",)
_FAILED, _PASSED = 1, 0  # exit codes of pytest


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


def _pytest(fault: Fault, root: Path, more: Path | None = None) -> int:
    path = os.pathsep.join(str(one) for one in (more, root / "toolchain") if one)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *fault.tests]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return done.returncode


def _in_package(fault: Fault, folder: Path) -> int:
    """The tests of this tree on a copy of the package that stands first."""
    spec = importlib.util.find_spec("kernelwright")
    if spec is None or spec.origin is None:
        raise SystemExit("kernelwright is not installed for this Python: ./kw tests makes an environment that has it")
    shutil.copytree(Path(spec.origin).parent, folder / "kernelwright")
    path = folder / fault.file.removeprefix("src/")
    # The tree's own file, so that an older installation is no matter.
    path.write_text(fault.planted((ROOT / fault.file).read_text(encoding="utf-8")), encoding="utf-8")
    return _pytest(fault, ROOT, folder)


def _copy(fault: Fault, folder: Path) -> None:
    for name in _tracked():
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to)
    path = folder / fault.file
    path.write_text(fault.planted(path.read_text(encoding="utf-8")), encoding="utf-8")


def _in_tree(fault: Fault, folder: Path) -> int:
    _copy(fault, folder)
    return _pytest(fault, folder)


def _in_build(fault: Fault, folder: Path) -> int:
    """By ./kw tests, whose environment is the copy's own."""
    _copy(fault, folder)
    for pattern in (*_SHARED, *_OWN):
        for path in (ROOT / ".kw").glob(pattern):
            to = folder / ".kw" / path.relative_to(ROOT / ".kw")
            to.parent.mkdir(parents=True, exist_ok=True)
            if pattern in _OWN or "environments" in path.parts:
                shutil.copytree(path, to, symlinks=True)
            else:
                to.symlink_to(path)
    command = [sys.executable, str(folder / "kw"), "tests", "--", "-q", "-x", *fault.tests]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    # A build that refuses the fault finds it too, but is no test of it.
    return _FAILED if done.returncode and " failed" in done.stdout else done.returncode and 2


_WAYS = {"package": _in_package, "tree": _in_tree, "build": _in_build}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted.run", description=__doc__)
    parser.add_argument("--only", default="", help="faults whose names have this text")
    parser.add_argument("--in", dest="where", choices=_WAYS, help="faults of one kind")
    parser.add_argument("--list", action="store_true", help="names them")
    options = parser.parse_args()
    chosen = [one for one in faults() if options.only in one.name and options.where in (None, one.where)]
    missed = 0
    for fault in chosen:
        if options.list:
            print(f"{fault.where:8} {fault.name}")
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kw-planted-") as folder:
            code = _WAYS[fault.where](fault, Path(folder))
        said = {_FAILED: "found", _PASSED: "MISSED"}.get(code, f"NOT TESTED (exit code {code})")
        missed += code != _FAILED
        print(f"{said:7} {fault.name}  {time.monotonic() - start:.0f} s", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
