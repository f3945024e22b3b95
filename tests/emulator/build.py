# SPDX-License-Identifier: MIT
"""Compiles the emulating driver, and images of kernels for it: csrc/ops/*/*.cu translated to C++, for the host.

python -m tests.emulator.build FOLDER CODE…      those of the installed package
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kernelwright_toolchain.device.compiler import source_of
from kernelwright_toolchain.device.sources import is_device_code
from kernelwright_toolchain.targets import load
from tests.emulator import objects
from tests.emulator.translate import translate
from tests.tree import ROOT

HERE = Path(__file__).parent
CSRC = ROOT / "csrc"
PLAIN = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"]
STRICT = ["-Wall", "-Wextra", "-Werror"]


class NoCompiler(Exception):
    """Neither zig nor c++ is at hand."""


def compiler() -> list[str]:
    """zig as in the other tests of C++, else the system's."""
    given = os.environ.get("KW_ZIG") or shutil.which("zig")
    if given is None and (spec := importlib.util.find_spec("ziglang")) and spec.submodule_search_locations:
        given = str(Path(next(iter(spec.submodule_search_locations))) / "zig")
    if given and Path(given).is_file():
        return [given, "c++", "-fno-sanitize=undefined", "-nostdlib++"]
    system = shutil.which("c++")
    if system is None:
        raise NoCompiler("no zig (KW_ZIG, PATH, the module ziglang) and no c++ on PATH")
    return [system]


def build_driver(to: Path) -> Path:
    """The emulating libcuda.so.1 in a folder of its own."""
    to.mkdir(parents=True, exist_ok=True)
    library = to / "libcuda.so.1"
    sources = sorted((HERE / "runtime").glob("*.cpp"))
    options = [*PLAIN, *STRICT, "-O2"]
    with objects.one_at_a_time():
        made = _all(
            lambda source: objects.compiled(compiler(), options, ["-I", CSRC], source, to / f"{source.stem}.o"), sources
        )
    objects.run(*compiler(), *PLAIN, "-shared", "-Wl,-soname,libcuda.so.1", *made, "-o", library, "-ldl")
    return library


def _all(make: Callable[[Path], Path], sources: Iterable[Path]) -> list[Path]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(make, sources))


def _instrumented(command: list[str]) -> list[str]:
    """A call before each load and store of memory that others see, of which runtime/plain.cpp has the functions."""
    options = ["-fsanitize=thread"]
    if command[1:2] == ["c++"]:  # zig's compiler is clang
        options += ["-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-instrument-read-before-write=1"]
    return options


def _unit(source: Path, kernels: Mapping[str, int], stage: Path) -> Path:
    """A translated .cu, and after it the rows that tell of its kernels."""
    rows = "".join(f"    EMULATED_KERNEL({name}, {threads})\n" for name, threads in sorted(kernels.items()))
    unit = stage / f"{source.stem}.cpp"
    unit.write_text(
        f'#define EMULATED_IMAGE\n#include "image.h"\n#include "{source.name}"\n'
        f'extern "C" const EmulatedKernel emulated_{source.stem}[] = {{\n{rows}    {{}}}};\n',
        encoding="utf-8",
    )
    return unit


def _compile(unit: Path, features: Iterable[str]) -> Path:
    command = compiler()
    options = [
        *PLAIN, "-w", "-O1", "-ffp-contract=off",
        *_instrumented(command), *(f"-DKW_HAS_{feature.upper()}=1" for feature in features),
    ]  # fmt: skip
    return objects.compiled(command, options, ["-I", HERE / "device", "-I", unit.parent], unit, unit.with_suffix(".o"))


def features_of(code: str, toolkit: str | None) -> tuple[str, ...]:
    """Those of the code; of a toolkit, those that it can compile."""
    table = load()
    row = table.codes[code]
    return row.features if toolkit is None else table.made(row, table.toolkits[toolkit]).features


def build_image(
    code: str, kernels: Mapping[Path, Mapping[str, int]], headers: Mapping[Path, Path], driver: Path, to: Path,
    toolkit: str | None = None,
) -> Path:  # fmt: skip
    """The kernels of these .cu files (their names, and the most threads of a block) with the features of the code.

    `headers` are files with the paths by which they are included.
    """
    stage = to / code
    translate({**{source: Path(source.name) for source in kernels}, **headers}, stage)
    units = [_unit(source, names, stage) for source, names in kernels.items()]
    with objects.one_at_a_time():
        made = _all(lambda unit: _compile(unit, features_of(code, toolkit)), units)
    table = stage / "table.cpp"
    names = [f"emulated_{source.stem}" for source in kernels]
    table.write_text(
        '#include "image.h"\nextern "C" {\n'
        + "".join(f"extern const EmulatedKernel {name}[];\n" for name in names)
        + '__attribute__((visibility("default"))) extern const EmulatedKernel* const emulated_kernels[];\n'
        + f"const EmulatedKernel* const emulated_kernels[] = {{{', '.join(names)}, nullptr}};\n}}\n",
        encoding="utf-8",
    )
    library = to / f"{''.join(filter(str.isdigit, code))}.so"
    objects.run(*compiler(), *PLAIN, "-shared", "-I", HERE / "device", table, *made, driver, "-o", library, "-lm")
    return library


def headers() -> dict[Path, Path]:
    """What every .cu may include, and by which path."""
    found = sorted(path for path in CSRC.rglob("*") if path.suffix in (".h", ".cuh"))
    return {path: path.relative_to(CSRC) for path in found if is_device_code(path.relative_to(ROOT))}


def build_operators(manifest: Mapping[str, Any], codes: Iterable[str], driver: Path, to: Path) -> None:
    """The operators of a wheel, each .cu with the kernels that the manifest has of it; for the codes in whose files those
    of the given ones lie.
    """
    rows = [image for image in manifest["images"] if image["code"] in set(codes)]
    for code in sorted({image["served_by"]["code"] if image["served_by"] else image["code"] for image in rows}):
        kernels = {
            ROOT / source_of(ROOT, image["op"]): {k["name"]: k["max_threads"] for k in image["kernels"]}
            for image in manifest["images"]
            if image["code"] == code and not image["served_by"]
        }
        build_image(code, kernels, headers(), driver, to, manifest["toolkit"])


def manifest() -> dict[str, Any]:
    """Of the installed package."""
    from kernelwright import _files

    found: dict[str, Any] = _files.read(_files.MANIFEST)
    return found


def kernels_of(code: str) -> set[str]:
    """The names of that package's kernels."""
    images = [image for image in manifest()["images"] if image["code"] == code]
    return {kernel["name"] for image in images for kernel in image["kernels"]}


def main() -> None:
    folder = Path(sys.argv[1])
    build_operators(manifest(), sys.argv[2:], build_driver(folder), folder)


if __name__ == "__main__":
    main()
