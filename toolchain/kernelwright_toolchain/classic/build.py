# SPDX-License-Identifier: MIT
"""The wheel of a project that has a build of its own: its backend, run under the exact compilers."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.classic import finish, requirements, source, toolkit
from kernelwright_toolchain.classic.run import Ground, refusal, run
from kernelwright_toolchain.errors import CompileError, RequestError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import codes_of, find_target
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import Code, Table, Target, Toolkit
from kernelwright_toolchain.version import VERSION

OURS = "kernelwright_toolchain.backend"
_CALL = """
import importlib, json, sys
given = json.loads(sys.argv[1])
sys.path[:0] = given["modules"]
print("\\nmade: " + getattr(importlib.import_module(given["backend"]), given["hook"])(given["out"], given["settings"]))
"""


@dataclass(frozen=True)
class Made:
    wheel: Path
    sha256: str
    inexact: tuple[str, ...]  # why the bytes may be others elsewhere; empty where they may not


def arch_words(codes: tuple[Code, ...]) -> dict[str, str]:
    """The codes as CMake, torch and a project's own definitions say them."""
    cubins = [code for code in codes if code.kind == "cubin"]
    plain = [*(f"{code.number}-real" for code in cubins), *(f"{c.number}-virtual" for c in codes if c.kind == "ptx")]
    dotted = [re.sub(r"^(\d+)(\d)(\w?)$", r"\1.\2\3", code.number) for code in cubins]
    with_ptx = {code.number for code in codes if code.kind == "ptx"}
    torch = [f"{name}+PTX" if name.replace(".", "") in with_ptx else name for name in dotted]
    return {"cmake": ";".join(plain), "torch": " ".join(torch), "archs": ";".join(code.number for code in cubins)}


def _host_compiler() -> str:
    """What says which GCC it is; it is the machine's own."""
    found = shutil.which("c++") or shutil.which("g++")
    if found is None:
        raise RequestError("there is no C++ compiler on PATH: nvcc needs a GCC (apt-get install g++, or conda's gxx)")
    return subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def _ground(
    settings: Settings, home: toolkit.Home, tools: tuple[Path, ...], words: Mapping[str, str], why: list[str]
) -> Ground:
    place = project().state / "classic"
    build = place / "build"
    shutil.rmtree(build, ignore_errors=True)
    (build / "out").mkdir(parents=True)
    if reason := refusal():
        why.append(f"no namespaces here ({reason}): paths, process numbers and dates may be in the bytes")
    defines = {key: value.format(**words) for key, value in settings.defines.items()}
    given = {"CUDAARCHS": words["cmake"], "TORCH_CUDA_ARCH_LIST": words["torch"], **defines}
    given["CMAKE_ARGS"] = " ".join(
        [f"-DCMAKE_CUDA_ARCHITECTURES={words['cmake']}", *(f"-D{k}={v}" for k, v in defines.items())]
    )
    copied = source.copy(settings.root, place / "source")
    return Ground(copied, build, home, tools, exact=not reason, why=reason, environment=given)


def _check(settings: Settings, target: Target, rows: Table) -> str:
    """The backend; RequestError where there is none, or none that can build for that target here."""
    if settings.backend is None:
        raise RequestError(
            "[tool.kernelwright] names neither a kernel nor a backend: `kwt init` finds the one that the project has"
        )
    if settings.backend == OURS:
        raise RequestError(
            f"backend = {OURS!r} is this toolchain's own; name the one that the project had before, such as "
            "scikit_build_core.build or setuptools.build_meta"
        )
    if target.machine != providers.machine_of(rows):
        raise RequestError(
            f"{target.name} is {target.machine}: host code of a project's own build is compiled by this machine's GCC, "
            f"for {providers.machine_of(rows)}; build it there, or as a device-only package, which crosses"
        )
    return settings.backend


def _run(ground: Ground, backend: str, hook: str, jobs: int | None) -> Path:
    """What the project's backend makes."""
    tools = [ground.at(f"tools{number}") for number in range(len(ground.tools))]
    own = {"build-dir": f"{ground.at('build')}/tree"} if backend.startswith("scikit_build_core") else {}
    given = {"modules": tools, "backend": backend, "hook": hook, "out": f"{ground.at('build')}/out", "settings": own}
    log = project().state / "classic" / "build.log"
    command = [sys.executable, "-I", "-c", _CALL, json.dumps(given)]
    code = run(ground, command, cwd=ground.at("source"), count=jobs, log=log)
    said = log.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^made: (.+)$", said, re.MULTILINE)
    if code or not found:
        raise CompileError(f"{backend} failed (exit code {code}); the whole log is {log}\n{said[-6000:]}")
    return ground.build / "out" / str(found[-1])


def _toolkit(settings: Settings, rows: Table, asked: str | None, provider: str) -> tuple[Toolkit, toolkit.Home]:
    name = asked or settings.toolkit
    if name is not None and name not in rows.toolkits:
        raise RequestError(f"toolkit {name!r} is not in the table; there are {', '.join(rows.toolkits)}")
    return toolkit.find(rows.toolkits[name] if name else None, rows, provider)


def build(
    settings: Settings, rows: Table, out: Path, asked: Mapping[str, str | None], *,
    jobs: int | None = None, provider: str = "pip",
) -> Made:  # fmt: skip
    """One wheel into the directory."""
    target = find_target(rows, asked.get("target"))
    backend = _check(settings, target, rows)
    why: list[str] = []
    kit, home = _toolkit(settings, rows, asked.get("toolkit"), provider)
    if home.lock is None:
        why.append(f"nvcc {home.version} is this machine's own")
    codes = codes_of(rows, target, kit, asked.get("archs") or settings.archs_of(target.name))
    words, compiler = arch_words(codes), _host_compiler()
    needed = requirements.wanted(settings.root, backend)
    tools = (host.tools(rows, "pip").modules[0], *requirements.installed(settings.root, needed, why))
    ground = _ground(settings, home, tools, words, why)
    print(f"nvcc {home.version}, {compiler}, {words['cmake']}", file=sys.stderr, flush=True)
    built = _run(ground, backend, "build_wheel", jobs)
    chosen = {"target": target.name, "toolkit": kit.name, "archs": ",".join(code.name for code in codes)}
    recipe = {
        "toolchain": VERSION, "build": chosen, "provider": provider, "backend": backend,
        "inputs": source.digests(settings.root), "locks": [home.lock, rows.tools.locks[providers.machine_of(rows)]],
        "host_compiler": compiler, "inexact": why,
    }  # fmt: skip
    made = finish.finish(built, out, target, recipe, settings.root)
    return Made(made, hashlib.sha256(made.read_bytes()).hexdigest(), tuple(why))


def sdist(settings: Settings, rows: Table, out: Path) -> Path:
    """By the project's backend, from the sources that git knows; no compiler is needed for it."""
    backend = _check(settings, find_target(rows, None), rows)
    needed = requirements.wanted(settings.root, backend)
    tools = (host.tools(rows, "pip").modules[0], *requirements.installed(settings.root, needed, []))
    place = project().state / "classic"
    build = place / "build"
    shutil.rmtree(build, ignore_errors=True)
    (build / "out").mkdir(parents=True)
    home = toolkit.Home(place, "none", None)
    ground = Ground(source.copy(settings.root, place / "source"), build, home, tools, exact=False)
    return Path(shutil.copy2(_run(ground, backend, "build_sdist", None), out))
