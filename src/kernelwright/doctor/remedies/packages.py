# SPDX-License-Identifier: MIT
"""Commands that change the Python packages of the environment that is looked at, by what manages it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright import _files
from kernelwright.doctor.machine import jetson, python
from kernelwright.doctor.remedies.shell import quote

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

OF_TORCH = "https://download.pytorch.org/whl"
_OF_NVIDIA = "https://developer.download.nvidia.com/compute/redist/jp"
_BESIDE = ("torchvision", "torchaudio")


def interpreter(machine: Machine) -> str:
    return quote(sys.executable or "python3") if machine.root == Path("/") else "python3"


def is_uvs(machine: Machine) -> bool:
    """uv made this environment and left pip out of it."""
    several = machine.once(python.packages)
    return "pip" not in several and any(one[0].installer == "uv" for one in several.values())


def empty_cache(machine: Machine) -> str:
    return "uv cache clean" if is_uvs(machine) else pip(machine, "cache", "purge")


def pip(machine: Machine, verb: str, *arguments: str) -> str:
    """pip of this very Python: another one's would change another environment."""
    own = interpreter(machine)
    words = " ".join(arguments)
    if own.startswith("/nix/store/"):  # which nobody may write to
        return f"{own} -m venv --system-site-packages ~/venv && ~/venv/bin/python -m pip {verb} {words}"
    if is_uvs(machine):
        return f"uv pip {verb} --python {own} {words}".replace("uninstall -y", "uninstall")
    return f"{own} -m pip {verb} {words}"


def again(machine: Machine, package: str, version: str) -> str:
    """The same release of a package, as the index has it for this machine."""
    return pip(machine, "install", "--force-reinstall", "--no-deps", "--no-cache-dir", quote(f"{package}=={version}"))


def built(machine: Machine, package: str, version: str) -> str:
    """The same release, compiled here for the torch that is here."""
    options = ("--force-reinstall", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary")
    return pip(machine, "install", *options, quote(package), quote(f"{package}=={version}"))


def _table(level: int, *, older: bool) -> str | None:
    """The toolkit whose torch a driver of this CUDA level can run: the newest of its major version, or the one before,
    which still has older GPUs.
    """
    rows = _files.read(_files.TARGETS)["toolkits"]
    numbers = {name: tuple(map(int, row["release"].split("."))) for name, row in rows.items()}
    fit = sorted((number, name) for name, number in numbers.items() if number[0] == level // 1000)
    fit = fit or sorted((number, name) for name, number in numbers.items() if number[0] < level // 1000)
    return fit[-2 if older and len(fit) > 1 else -1][1] if fit else None


def _of_jetson(machine: Machine) -> tuple[str, str]:
    number, revision = jetson.l4t(machine) or (jetson.LAST_TEGRA, "9")
    release = "v61" if number >= jetson.LAST_TEGRA and revision[0] not in "23" else "v60"
    release = "v512" if number < jetson.LAST_TEGRA else release
    options = ("--force-reinstall", "--no-deps", "--no-index", f"--find-links {_OF_NVIDIA}/{release}/pytorch/", "torch")
    return pip(machine, "install", *options), "It is for the Python of that JetPack. KW-037 has what keeps it."


def level_of_servers(machine: Machine) -> int | None:
    """The CUDA level of the driver, or where none answers the one of the newest toolkit that is known."""
    if machine.driver.get("level"):
        return int(machine.driver["level"])
    rows = _files.read(_files.TARGETS)["toolkits"].values()
    major, minor = max(tuple(map(int, row["release"].split("."))) for row in rows)
    return major * 1000 + minor * 10


def torch(machine: Machine, level: int | None, *, older: bool = False) -> tuple[str, str] | None:
    """A torch with CUDA for this machine; None where there is none for its driver. `older`: its GPU is an old one."""
    if jetson.model(machine) is not None and jetson.userland(machine) != "sbsa":
        return _of_jetson(machine)
    several = machine.once(python.packages)
    found = python.torch(machine)
    if found is not None and found.origin == "conda":
        return "conda install -y -c conda-forge pytorch-gpu", "conda takes the build that the driver can run."
    names = ["torch", *(name for name in _BESIDE if name in several)]
    if level is None:
        return pip(machine, "install", "--force-reinstall", "--no-cache-dir", *names), "On Linux PyPI's torch has CUDA."
    toolkit = _table(level, older=older)
    if toolkit is None:
        return None
    chosen = pip(machine, "install", "--force-reinstall", *names, f"--index-url {OF_TORCH}/{toolkit}")
    return chosen, "What was built on the other torch has to be installed again."
