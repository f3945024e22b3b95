# SPDX-License-Identifier: MIT
"""Runs a build under the exact compilers: in namespaces where they are allowed, else as near as can be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright_toolchain import keeper
from kernelwright_toolchain.classic import gcc, inside, progress
from kernelwright_toolchain.classic.gcc import Gcc
from kernelwright_toolchain.classic.toolkit import Home
from kernelwright_toolchain.device.environment import job_limit
from kernelwright_toolchain.errors import ToolMissing
from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.project import project

SITE = "shims"  # what lies over nvcc, and what a Python under `kwt exec` imports first
HERE = Path(__file__).resolve().parent
EPOCH = "315532800"
# What would change what a compiler makes, unseen; and what one library takes for its own idea of a toolkit.
UNWANTED = (
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CC",
    "CXX", "CUDAFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CMAKE_", "SKBUILD_", "PYTHON", "DESTDIR",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDAHOSTCXX", "NVCC_CCBIN", "BNB_CUDA_VERSION", "FORCE_CUDA",
    "TORCH_CUDA_ARCH_LIST", "MAKEFLAGS",
)  # fmt: skip
_MUTE = (
    "PYTHON",
    "CUDAHOSTCXX",
    "NVCC_CCBIN",
    "LD_LIBRARY_PATH",
)  # often set for other reasons, or read by this toolchain


@dataclass(frozen=True)
class Ground:
    """Where a build stands. In namespaces every path is below /kw; without, it is the machine's own."""

    source: Path
    build: Path
    home: Home
    tools: tuple[Path, ...] = ()
    exact: bool = True
    why: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    network: bool = True
    gcc: Gcc | None = None  # a locked one; in namespaces alone

    def at(self, name: str) -> str:
        """source, build, cuda, shims, tools0 …, as the build sees them."""
        if self.exact:
            return f"/kw/{name}"
        places = {"source": self.source, "build": self.build, "cuda": self.home.path, SITE: _shims()}
        places |= {f"tools{number}": path for number, path in enumerate(self.tools)}
        return str(places[name])


def _places(ground: Ground) -> dict[str, str]:
    """In the order they are mounted: the shim lies over nvcc, the real one is reached beside it."""
    cuda = str(ground.home.path)
    places = {"/kw/source": str(ground.source), "/kw/build": str(ground.build), "/kw/cuda": cuda, "/kw/real": cuda}
    places |= {f"/kw/tools{number}": str(path) for number, path in enumerate(ground.tools)}
    shims = _shims()
    places |= ground.gcc.places() if ground.gcc else {}
    places["/kw/tmp"] = str(ground.build)  # under each nvcc another one
    return {**places, "/kw/shims": str(shims), "/kw/cuda/bin/nvcc": str(shims / "nvcc.sh")}


def _shims() -> Path:
    """A wheel's files are not executable once they are installed."""
    place = project().state / "shims"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("nvcc.sh", "compile.sh", "sitecustomize.py"):
        write_if_changed(place / name, (HERE / name).read_bytes())
        (place / name).chmod(0o755)
    return place


def environment(ground: Ground, count: int | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    cuda, number = ground.at("cuda"), str(job_limit(count).count)
    programs = [f"{cuda}/bin", *([f"{gcc.PLACE}/{gcc.PROGRAMS}"] if ground.gcc else [])]
    for place, tools in enumerate(ground.tools):
        programs += [
            f"{ground.at(f'tools{place}')}/{name}" for name in ("cmake/data/bin", "bin") if (tools / name).is_dir()
        ]
    kept |= {
        "PATH": os.pathsep.join([*programs, kept.get("PATH", os.defpath), str(Path(sys.executable).parent)]),
        "CUDA_HOME": cuda, "CUDA_PATH": cuda, "CUDAToolkit_ROOT": cuda, "CUDACXX": f"{cuda}/bin/nvcc",
        "HOME": ground.at("build"), "TMPDIR": "/tmp", "OLDPWD": "/", "TZ": "UTC", "LC_ALL": "C", "LANG": "C",  # noqa: S108
        "SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1",
        "MAX_JOBS": number, "CMAKE_BUILD_PARALLEL_LEVEL": number,
    }  # fmt: skip
    if not ground.exact:
        kept["NVCC_APPEND_FLAGS"] = f"-Xcompiler=-ffile-prefix-map={ground.source}=/kw/source"
    return {**kept, **ground.environment}


def ignored() -> list[str]:
    """Variables that are set here and do not reach the build, since a wheel could not say that they did."""
    return sorted(name for name in os.environ if name.startswith(UNWANTED) and not name.startswith(_MUTE))


def refusal() -> str:
    """Why no namespaces can be made here; "" if they can."""
    for name in ("unshare", "mount", "mktemp"):
        if shutil.which(name) is None:
            return f"there is no program `{name}` here"
    with tempfile.TemporaryDirectory(prefix="kwt-") as scratch:
        command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "true"]
        given = {
            "root": scratch,
            "places": {},
            "cwd": "/",
            "command": command,
            "env": dict(os.environ),
            "network": False,
        }
        done = subprocess.run(_command(given), capture_output=True, text=True, check=False)
    said = done.stderr.strip().removeprefix("no namespaces: ").splitlines()
    return "" if done.returncode == 0 else (said or ["it fails without a word"])[-1]


def _command(given: Mapping[str, object]) -> list[str]:
    return [sys.executable, "-I", "-S", str(Path(inside.__file__)), json.dumps(given)]


def run(ground: Ground, command: Sequence[str], *, cwd: str, count: int | None = None, log: Path | None = None) -> int:
    """The command's exit code; what it says goes to the log, if one is named."""
    env = environment(ground, count)
    with tempfile.TemporaryDirectory(prefix="kwt-") as scratch:
        words = list(command)
        if ground.exact:
            given = {
                "root": scratch,
                "places": _places(ground),
                "cwd": cwd,
                "command": words,
                "env": env,
                "network": ground.network,
            }
            words, place = _command(given), None
        else:
            place = cwd
        if log is None:
            with subprocess.Popen(words, cwd=place, env=env) as process, keeper.kept(process.pid):
                return process.wait()
        code = progress.logged(words, place, env, log)
    if code == inside.REFUSED and ground.exact:
        raise ToolMissing(f"the namespaces of the build could not be made: see {log}")
    return code
