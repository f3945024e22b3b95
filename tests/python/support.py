# SPDX-License-Identifier: MIT
"""Running the package in processes of their own, and copies of it that can be damaged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import kernelwright

# Put before a program: torch cannot be imported, as on a machine without it.
WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def run(code: str, *args: str, package: Path | None = None, timeout: float = 120, **environment: str):
    """Runs a program in a new interpreter; `package` is the directory of a copy to import instead of the installed one."""
    return start(code, *args, package=package, **environment).wait_text(timeout)


class Child:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def wait_text(self, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # its children too, or they would keep the pipes open
            out, err = self.process.communicate()
            raise AssertionError(f"the process hung for {timeout} s; it had printed\n{out}\n{err}") from None
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)


def start(code: str, *args: str, package: Path | None = None, **environment: str) -> Child:
    env = {name: value for name, value in os.environ.items() if not name.startswith("KERNELWRIGHT_")} | environment
    if package:
        env["PYTHONPATH"] = str(package.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    return Child(process)


REPORT = "import runpy; runpy.run_module('kernelwright', run_name='__main__', alter_sys=True)"
"""`python -m kernelwright`, as a program for `run`."""


def copy_package(to: Path) -> Path:
    """A complete copy of the package in `to`: what an editable install keeps in two directories becomes one."""
    package = to / "kernelwright"
    for entry in kernelwright.__path__:
        shutil.copytree(entry, package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return package
