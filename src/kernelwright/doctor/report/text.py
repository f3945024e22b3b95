# SPDX-License-Identifier: MIT
"""The report as lines for a person: a word, then what is so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright import _environment
from kernelwright.doctor._told import afterwards
from kernelwright.doctor.operators._all import FAILED, RIGHT, runs
from kernelwright.doctor.report.areas import areas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GIB = 1 << 30


def _build(build: dict[str, Any]) -> Iterator[tuple[str, str]]:
    debug = ", debug" if build["debug"] else ""
    yield "kernelwright", build["version"]
    yield "build", f"for {build['target']}, toolkit {build['toolkit']}, provider {build['provider']}{debug}"
    yield "compiler", f"{build['compiler']['driver']} {build['compiler']['version']}"
    yield "images", " ".join(build["images"]) or "none"
    pairs = [(each["code"], each["by"]) for each in build["served_by"]]
    for code, by in sorted(set(pairs)):
        count = pairs.count((code, by))
        images = f"{count} image{'s' if count > 1 else ''}"
        yield "served by", f"{images} for {code}: the files of {by}, of which the same is loaded"


def _library(library: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "library", f"{library['path']} {library['version']}"
    yield "cpu", f"{library['isa']}, {library['threads']} threads"


def _system(system: dict[str, Any]) -> Iterator[tuple[str, str]]:
    where = f", in a container ({system['container']})" if system["container"] else ""
    where += ", in WSL" if system["wsl"] else ""
    yield (
        "system",
        f"{system['distribution']}, {system['processor']}, kernel {system['kernel']}, glibc {system['glibc']}{where}",
    )
    memory = f"{system['memory'] / _GIB:.0f} GiB of memory" if system["memory"] else "memory unknown"
    cpu = f" ({system['cpu']})" if system["cpu"] else ""
    yield "machine", f"{system['processors']} processors{cpu}, {memory}"


def _jetson(board: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if board:
        yield (
            "jetson",
            f"{board['board']}, L4T {board['l4t']}, JetPack {board['jetpack']}, {board['userland']} userland",
        )


def _driver(driver: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "error" in driver:
        of_probe = driver.get("hung") or driver.get("crashed") or driver.get("unasked")
        yield "driver", f"{'does not answer' if of_probe else 'none'}: {driver['error']}"
        return
    level = driver.get("level")
    shown = f"CUDA {level // 1000}.{level % 1000 // 10}" if level else "CUDA level unknown"
    yield "driver", f"{shown}, kernel module {driver['kernel_module'] or 'unknown'}, {driver.get('library')}"


def _gpus(gpus: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    if not gpus:
        yield "gpus", "none"
    for number, gpu in enumerate(gpus):
        own = int(gpu.get("capability", 0))
        memory = f", {gpu['memory'] / _GIB:.0f} GiB" if "memory" in gpu else ""
        serves = f"gets {gpu['image']}" if gpu["image"] else "gets nothing from this wheel"
        yield (
            "gpus",
            f"{number}: {gpu.get('name')}, compute capability {own // 10}.{own % 10}{memory}: {serves} ({gpu['why']})",
        )


def _python(python: dict[str, Any]) -> Iterator[tuple[str, str]]:
    whose = f"{python['executable']} ({python['environment']})"
    yield "python", f"{python['version']}, {whose}, NumPy {python['numpy'] or 'is not installed'}"


def _torch(torch: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if torch is None:
        yield "torch", "is not installed; the operators need it, the C library does not"
    else:
        cuda = f"CUDA {torch['cuda']}" if torch["cuda"] else "no CUDA"
        yield "torch", f"{torch['version']}, {cuda}, built by {torch['origin']}, {torch['place']}"
        if torch["cxx11_abi"] is not None:
            yield "torch", f"is built with the {'newer' if torch['cxx11_abi'] else 'older'} C++ interface of libstdc++"
        if torch["codes"]:
            yield "torch", f"its library has code for {' '.join(torch['codes'])}"
        imported = torch["import"]
        if imported.get("waited_for") is False:
            yield "torch", "its import takes longer than this report waits; --torch waits for it"
        elif "untried" in imported:
            yield "torch", f"its import was not tried: {imported['untried']}"
        elif "error" in imported:
            yield "torch", f"cannot be imported: {imported['error']}"
        elif "available" in imported:
            sees = "sees a GPU" if imported["available"] else "sees no GPU"
            yield "torch", f"can be imported, {sees}, has code for {' '.join(imported.get('archs', [])) or 'no GPU'}"


_LIBRARIES = {"cudnn": "cuDNN", "nccl": "NCCL"}


def _libraries(libraries: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    yield "libraries", ", ".join(f"{_LIBRARIES[name]} {found or 'none'}" for name, found in libraries.items())


def _packages(packages: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
    if packages:
        yield "packages", ", ".join(f"{each['name']} {each['version']}" for each in packages)


def _compiler(compiler: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    yield "g++", f"release {compiler['release']}, {compiler['place']}" if compiler else "none that a build would find"


def _toolkits(toolkits: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for toolkit in toolkits:
        yield "nvcc", f"{toolkit['release'] or 'does not say its release'}, {toolkit['nvcc']}"


def _variables(variables: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, meaning in _environment.MEANINGS.items():
        value = f"={variables[name]}" if name in variables else " is not set"
        yield "environment", f"{name}{value} ({meaning})"
    for name, value in variables.items():
        if name not in _environment.MEANINGS:
            yield "environment", f"{name}={value}"


_PARTS: dict[str, Callable[[Any], Iterator[tuple[str, str]]]] = {
    "build": _build,
    "library": _library,
    "system": _system,
    "jetson": _jetson,
    "driver": _driver,
    "gpus": _gpus,
    "python": _python,
    "torch": _torch,
    "libraries": _libraries,
    "packages": _packages,
    "toolkits": _toolkits,
    "host_compiler": _compiler,
    "variables": _variables,
}


def facts(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(word, what is so) of this installation and this machine."""
    for name, show in _PARTS.items():
        if name not in told:
            continue
        part = told[name]
        broken = isinstance(part, dict) and set(part) == {"error"} and name != "driver"
        yield from [(name, part["error"])] if broken else show(part)


def _finding(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['grade'].upper()} {found['code']}  {found['title']}"
    yield f"  found: {found['evidence']}"
    yield f"  why: {found['why']}"
    yield f"  fix: {found['fix']}"
    yield from [f"  then: {afterwards(found['then'])}"] if found["then"] else []


def failures(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(names, in words) of the runs that failed: what is said of several is said once."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, state, words in runs(told):
        if state == FAILED:
            alike.setdefault(words.removeprefix("on GPUs: "), []).append((name, words))
    for words, several in alike.items():
        names = dict.fromkeys(name for name, _ in several)
        yield ", ".join(names), several[0][1] if len(several) == 1 else words


def found_lines(told: dict[str, Any]) -> Iterator[str]:
    """The causes with their commands; those that others explain in a line each, behind."""
    explained = [found for found in told["findings"] if found["explained_by"]]
    for found in told["findings"]:
        if found not in explained:
            yield from ["", *_finding(found)]
            for other in explained:
                if other["explained_by"] == found["code"]:
                    yield f"  also: {other['code']} {other['title']} ({other['evidence']})"
    for one in told["unlooked"]:
        yield ""
        yield f"not looked for: {', '.join(one['codes'])} ({one['error']}); please report this"
    for names, words in failures(told):
        yield ""
        yield f"FAILED {names}: {words}"


def _ran(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How close each came is in the data; here it is well or it is not."""
    for name, state, words in runs(told):
        where = words.partition(": ")[0] if words.startswith("on GPU ") else "on the CPU"
        yield name, f"ok, {where}" if state == RIGHT else "failed, as said above" if state == FAILED else words


def lines(told: dict[str, Any]) -> Iterator[str]:
    """The whole report: how each area is, what is wrong, all facts; the last line is SUCCESS or FAILED."""
    yield f"{'kernelwright':<12} {told.get('build', {}).get('version', '')}".rstrip()
    for state, area, words in areas(told):
        yield f"{state:<5}  {area:<12} {words}"
    yield from found_lines(told)
    yield ""
    for word, text in facts(told):
        if word != "kernelwright":
            yield f"{word:<12} {text}"
    for name, words in _ran(told):
        yield f"{name:<12} {words}"
    yield ""
    yield "SUCCESS" if told["success"] else "FAILED"
