# SPDX-License-Identifier: MIT
"""Environments with nothing in them but what is put there, and the wheel's self-check in one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from kernelwright_toolchain import start
from kernelwright_toolchain.errors import GateError, ProvisionError
from kernelwright_toolchain.files import make_private
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers.pip import run_pip
from kernelwright_toolchain.request import Request


def environment() -> dict[str, str]:
    """This one, without what would let other modules in or change how environments are made."""
    dropped = ("PYTHON", "VIRTUALENV_", "PIP_", "KERNELWRIGHT_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    app_data = project().state / "cache" / "virtualenv"
    make_private(app_data)
    return {**env, "VIRTUALENV_CONFIG_FILE": os.devnull, "VIRTUALENV_OVERRIDE_APP_DATA": str(app_data)}


def make(place: Path, python: str | None = None) -> Path:
    """A new virtual environment, of this interpreter or of `python`; its own interpreter is the answer."""
    options = ["--quiet", "--clear", "--no-download", "--no-periodic-update", "--python", python or sys.executable]
    command = start.others(sys.executable, "virtualenv", *options, str(place))
    done = subprocess.run(command, env=environment(), cwd=project().root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProvisionError(f"making a virtual environment in {place} failed:\n{done.stdout}{done.stderr}")
    return place / "bin" / "python"


def install_wheel(python: Path, wheel: Path) -> None:
    run_pip(
        ["install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", str(wheel)],
        f"installing {wheel.name}", python,
    )  # fmt: skip


def self_check(wheel: Path, request: Request, workspace: Path) -> str:
    """Installs the wheel in a clean environment, without torch, and lets it check itself; says what came of it."""
    if request.target.machine != platform.machine():
        return f"skipped: this machine is {platform.machine()}, the wheel is for {request.target.machine}"
    python = make(workspace / "venv")
    install_wheel(python, wheel)
    command = [str(python), "-I", "-m", "kernelwright", "doctor", "--self"]
    done = subprocess.run(command, env=environment(), cwd=workspace, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    if done.returncode:
        raise GateError(f"{wheel} was built, but its self-check failed (exit code {done.returncode}):\n{said}")
    return said
