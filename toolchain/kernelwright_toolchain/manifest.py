# SPDX-License-Identifier: MIT
"""The files that describe a set of images: manifest.json, kw_images.inc, targets.json, report.json.

docs/architecture.md has their form; src/kernelwright and csrc/core read them.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kernelwright_toolchain.cubin import Cubin
from kernelwright_toolchain.errors import RequestError, TableError
from kernelwright_toolchain.request import label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kernelwright_toolchain.device import Built, DeviceCompiler, Image
    from kernelwright_toolchain.request import Request
    from kernelwright_toolchain.targets import Code, Table, Target

SCHEMA = 1
PROJECT = "kernelwright"
FEATURE_BITS = 32  # csrc/core keeps them in a uint32_t


def base_version(root: Path) -> str:
    """The version of pyproject.toml."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'^\[project\]\n(?:(?!\[).*\n)*?version\s*=\s*"([^"]+)"', text, re.MULTILINE)
    if not match:
        raise TableError(f"{root / 'pyproject.toml'}: [project] names no version; the build needs one there")
    return match.group(1)


def build_version(root: Path, request: Request, given: str | None = None) -> str:
    """That version with the request's label, or with the one that is given."""
    base = base_version(root)
    local = label(request) if given is None else given
    if local and not re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)*", local):
        raise RequestError(f"label {local!r} is not a PEP 440 local version: words of a-z and 0-9 joined by dots")
    return f"{base}+{local}" if local else base


def image_path(image: Image, request: Request) -> str:
    """Where an image lies in the package."""
    code = next(code for code in request.codes if code.name == image.code)
    return f"kernels/{code.name}/{image.op}.{code.suffix}"


def packed(images: Iterable[Image]) -> list[Image]:
    """Those that are files of the package: all but the ones that an equal image serves for."""
    return [image for image in images if not image.served_by]


def _file_of(image: Image, images: Iterable[Image]) -> Image:
    """The image whose file serves for this one: itself, or the equal one of another code."""
    code = image.served_by or image.code
    return next(one for one in images if (one.op, one.code) == (image.op, code))


def _json(value: Any, *, sort: bool = True) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=sort) + "\n").encode()


def _kernels(image: Image) -> list[dict[str, Any]]:
    """Of a cubin as its ELF says; what only the driver will know of PTX is null."""
    if isinstance(image.facts, Cubin):
        return [
            asdict(kernel)
            | {"spill_stores": image.spills[kernel.name].stores, "spill_loads": image.spills[kernel.name].loads}
            for kernel in image.facts.kernels
        ]
    unknown = dict.fromkeys(("registers", "shared", "stack", "constant", "spill_stores", "spill_loads"))
    return [{"name": name, "max_threads": threads, **unknown} for name, threads in image.facts.kernels]


def _row(image: Image, images: tuple[Image, ...], request: Request) -> dict[str, Any]:
    """`path`, `size` and `sha256` are those of the file that is loaded."""
    file = _file_of(image, images)
    served_by = {"code": file.code, "compiled": image.sha256, "loaded": image.loaded} if image.served_by else None
    return {
        "path": image_path(file, request),
        "op": image.op,
        "code": image.code,
        "kind": next(code.kind for code in request.codes if code.name == image.code),
        "size": len(file.data),
        "sha256": file.sha256,
        "served_by": served_by,
        "kernels": _kernels(image),
    }


def manifest(request: Request, compiler: DeviceCompiler, version: str, images: tuple[Image, ...]) -> bytes:
    """manifest.json: what the images hold, read from the images themselves."""
    return _json(
        {
            "schema": SCHEMA,
            "project": PROJECT,
            "version": version,
            "target": request.target.name,
            "toolkit": request.toolkit.name,
            "provider": request.provider,
            "debug": request.debug,
            "compiler": {"driver": compiler.name, "version": compiler.version},
            "images": [_row(image, images, request) for image in images],
        }
    )


def _feature(name: str) -> str:
    return f"KW_FEATURE_{name.upper()}"


def _image_line(image: Image, file: Image, codes: Mapping[str, Code]) -> str:
    code = codes[image.code]
    kind = f"KW_IMAGE_{code.kind.upper()}"
    runs_on = " ".join(str(capability) for capability in code.runs_on)
    features = " | ".join(_feature(name) for name in sorted(code.features)) or "0"
    head = f'"{image.op}", "{code.name}", {kind}, "{runs_on}", {features}'
    return f'KW_IMAGE({head}, "{file.code}", "{codes[file.code].native}", {len(file.data)}, "{file.sha256}")'


def images_inc(request: Request, table: Table, version: str, images: tuple[Image, ...]) -> bytes:
    """kw_images.inc: the features, the build, one line an image, and which images operators share."""
    features = table.features()
    if len(features) > FEATURE_BITS:
        raise TableError(f"targets.toml names {len(features)} features; the host library has {FEATURE_BITS} bits")
    codes = {code.name: code for code in request.codes}
    driver = request.toolkit.driver
    cuda = driver.cuda.parts[0] * 1000 + driver.cuda.parts[1] * 10
    lines = [
        "// SPDX-License-Identifier: MIT",
        "// Made by `python -m toolchain device`: what this build is, and the images it was built with.",
        "#ifndef KW_BUILD_VERSION",
        *(f"#define {_feature(name)} (1u << {bit})" for bit, name in enumerate(features)),
        f'#define KW_BUILD_VERSION "{version}"',
        f'#define KW_BUILD_TOOLKIT "{request.toolkit.name}"',
        f"#define KW_BUILD_DRIVER_CUDA {cuda}",
        f'#define KW_BUILD_DRIVER_LINUX "{driver.linux}"',
        "#endif",
        "#ifdef KW_IMAGE",
        *(_image_line(image, _file_of(image, images), codes) for image in images),
        "#endif",
        "#ifdef KW_SHARED_IMAGE",
        *(f'KW_SHARED_IMAGE("{op}", "{image}")' for op, image in request.shared),
        "#endif",
    ]
    return ("\n".join(lines) + "\n").encode()


def _system(target: Target) -> dict[str, str] | None:
    has = target.system
    return {"glibc": str(has.glibc), "cuda": str(has.cuda), "userland": has.userland} if has else None


def targets_json(table: Table) -> bytes:
    """targets.json: the table as loader and diagnosis need it, in the table's order."""
    codes = {
        code.name: {
            "kind": code.kind,
            "runs_on": [str(capability) for capability in code.runs_on],
            "features": list(code.features),
            "boards": list(code.boards),
            "toolkits": {
                "first": str(code.toolkits.first),
                "last": str(code.toolkits.last) if code.toolkits.last else None,
            },
        }
        for code in table.codes.values()
    }
    toolkits = {
        kit.name: {
            "release": str(kit.release),
            "driver": {"cuda": str(kit.driver.cuda), "linux": kit.driver.linux},
            "ptx": str(kit.ptx),
            "gcc": {"min": kit.gcc.min, "max": kit.gcc.max},
        }
        for kit in table.toolkits.values()
    }
    targets = {
        target.name: {
            "machine": target.machine,
            "glibc": str(target.glibc),
            "platform_tag": target.platform_tag,
            "toolkit": target.toolkit,
            "codes": [*target.cubins, *target.ptx],
            "system": _system(target),
            "about": target.about,
        }
        for target in table.targets.values()
    }
    return _json({"schema": SCHEMA, "codes": codes, "toolkits": toolkits, "targets": targets}, sort=False)


def report(built: Built, request: Request) -> bytes:
    """report.json: what the build took; not installed, since it differs from run to run."""
    images = [
        {
            "path": image_path(image, request),
            "op": image.op,
            "code": image.code,
            "size": len(image.data),
            "registers": image.registers,
            "spills": image.spilled,
            "seconds": round(image.seconds, 3),
            "peak": image.peak,
            "cached": image.cached,
            "served_by": image.served_by or None,
        }
        for image in built.images
    ]
    return _json({"schema": SCHEMA, "seconds": round(built.seconds, 3), "jobs": built.note, "images": images})
