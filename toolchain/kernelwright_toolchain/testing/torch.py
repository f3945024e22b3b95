# SPDX-License-Identifier: MIT
"""Which torch the tests see: hashed before it is installed, its size said before it is fetched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright_toolchain.errors import ProvisionError, RequestError, ToolMissing
from kernelwright_toolchain.locking.sizes import size_of
from kernelwright_toolchain.locking.wanted import group
from kernelwright_toolchain.providers.pip import run_pip, sha256_of
from kernelwright_toolchain.testing import locked_torch

# Every folder that is searched beside the standard library's: torch may lie in the user's own, or in one that a .pth
# file or PYTHONPATH names.
_ASK = """import json, os, sys, sysconfig, torch
own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
paths = [p for p in sys.path if os.path.isdir(p) and p not in own and os.path.basename(p) != "lib-dynload"]
print(json.dumps([torch.__version__, paths, sys.version_info[:2]]))"""
_ASKING = ("--dry-run", "--quiet", "--report=-", "--ignore-installed", "--target=unused", "--only-binary=:all:")
# What a build of torch for GPUs drags in; a build for CPUs needs none of it.
_FOR_GPUS = ("nvidia-", "cuda-", "triton")


@dataclass(frozen=True)
class Torch:
    """`key` names the choice; `paths` are another Python's modules; `lock` is text for pip with hashes."""

    key: str
    about: str
    paths: tuple[str, ...] = ()
    lock: str = ""
    python: str = field(default_factory=lambda: sys.executable)


def _none(about: str) -> Torch:
    return Torch("none", about)


def installed() -> Torch | None:
    """The torch of the Python that is first on PATH, or of the one this environment was made from."""
    candidates = [shutil.which("python3"), str(Path(sys.base_prefix) / "bin" / "python3")]
    for python in dict.fromkeys(filter(None, candidates)):
        done = subprocess.run([str(python), "-c", _ASK], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            version, paths, release = json.loads(done.stdout.splitlines()[-1])
            if tuple(release) >= (3, 10):
                return Torch(f"installed-{version}", f"torch {version} of {python}", tuple(paths), python=str(python))
    return None


def on_another_python(asked: str, torch: str | None) -> Torch:
    """That interpreter, without torch: the locks have hashes for every Python, an index's answer is for one."""
    python = shutil.which(asked)
    if torch not in (None, "none"):
        raise RequestError(f"--python {asked} goes with --torch none; run kw by that Python for --torch {torch}")
    if python is None:
        raise ToolMissing(f"--python {asked}: there is no such program on PATH; give the path of a Python interpreter")
    command = [python, "-c", "import sys; print(sys.executable, *sys.version_info[:2])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolMissing(f"--python {asked}: {python} does not run ({(done.stdout + done.stderr).strip()[:200]})")
    path, major, minor = done.stdout.split()
    if (int(major), int(minor)) < (3, 10):
        raise RequestError(f"--python {asked} is Python {major}.{minor} at {path}; the wheel needs 3.10 or newer")
    return Torch(f"none-{major}.{minor}", f"on Python {major}.{minor}, without torch", python=path)


def _report(spec: str) -> list[dict[str, Any]]:
    """What pip would install for this requirement, file by file, without doing it."""
    text = run_pip(["install", *_ASKING, spec], f"asking the package index for {spec}")
    items: list[dict[str, Any]] = json.loads(text)["install"]
    return items


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"]).lower().replace("_", "-")


def _pinned(spec: str, items: list[dict[str, Any]]) -> Torch:
    lines = []
    for item in sorted(items, key=_name):
        digest = sha256_of(item)
        if not digest:
            raise ProvisionError(f"{spec}: the package index gives no sha256 for {_name(item)}")
        lines.append(f"{_name(item)}=={item['metadata']['version']} --hash=sha256:{digest}\n")
    total = sum(size_of(item["download_info"]["url"]) for item in items)
    own = next(item for item in items if _name(item) == "torch")
    version = own["metadata"]["version"]
    locked = locked_torch.lock(version, sha256_of(own) or "")
    kind = "a build for GPUs" if for_gpus(items) else "a build for CPUs"
    about = f"torch {version}, {kind}: {len(items)} packages, {total / 1e6:,.0f} MB to fetch"
    said = f"{about}, {'locked' if locked else 'not locked: hashed as the index gives it'}"
    return Torch(f"spec-{version}", said, lock=locked or "".join(lines))


def for_gpus(items: list[dict[str, Any]]) -> bool:
    return any(_name(item).startswith(_FOR_GPUS) for item in items)


def to_test(asked: str | None, python: str | None) -> Torch:
    """What `./kw tests` is to see; asked for before anything is built, for it may be refused."""
    return on_another_python(python, asked) if python else choose(asked)


def to_compare(asked: str | None) -> Torch:
    """What `./kw bench` compares with, and there has to be one."""
    chosen = choose(asked)
    if chosen.key == "none":
        raise ToolMissing(f"the benchmarks compare with torch, and there is none ({chosen.about}): name one by --torch")
    return chosen


def choose(asked: str | None) -> Torch:
    """The torch that was asked for, or an error if it cannot be had; without a wish, the best at hand."""
    if asked is not None and not asked.strip():
        raise RequestError(f"--torch {asked!r} names nothing; leave the option out for the best torch at hand")
    if asked == "none":
        return _none("without torch, as asked")
    if asked == "installed" or asked is None:
        if found := installed():
            return found
        if asked:
            raise ToolMissing(
                "--torch installed: neither the python3 on PATH nor the one beneath this environment can import torch; "
                "install it there, or ask for --torch torch==VERSION, which is installed for the tests alone"
            )
    spec = asked or group("torch")[0]
    try:
        items = _report(spec)
    except ProvisionError as error:
        if asked:
            raise
        said = str(error).splitlines()[-1]
        return _none(f"without torch: the package index has no {spec} for this Python ({said})")
    if asked is None and for_gpus(items):
        return _none(
            f"without torch: the package index has only a build for GPUs of {spec}, which is gigabytes. "
            "For the tests that need torch, name PyTorch's index of CPU builds in PIP_EXTRA_INDEX_URL, "
            f"or ask for that build with --torch {spec}"
        )
    return _pinned(spec, items)
