# SPDX-License-Identifier: MIT
"""`kwt new NAME`: a folder with a device-only package that works: one kernel, its table, nothing else."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.version import VERSION

TEMPLATES = Path(__file__).resolve().parents[1] / "packages" / "templates"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the package and its first operator: a-z, 0-9, _ and -")
    parser.add_argument("--in", dest="place", type=Path, default=Path(), metavar="DIR", help="default: here")


def run(given: argparse.Namespace) -> int:
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", given.name):
        raise RequestError(f"{given.name!r} is no name of a package: words of a-z and 0-9, joined by _ or -")
    place = given.place / given.name
    if place.exists() and any(place.iterdir()):
        raise RequestError(f"{place} is there already, and not empty; nothing was written")
    operator = given.name.replace("-", "_")
    for path in sorted(path for path in TEMPLATES.rglob("*") if path.is_file()):
        name = (
            path.relative_to(TEMPLATES)
            .as_posix()
            .replace("@operator@", operator)
            .removesuffix(".in")
            .replace("dot.", ".")
        )
        text = path.read_text(encoding="utf-8").partition("\n")[2]  # whose licence it is, its author says
        for key, value in {"name": given.name, "operator": operator, "version": VERSION}.items():
            text = text.replace(f"@{key}@", value)
        to = place / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
        print(to)
    print(f"\ncd {place} && kwt build     # then: pip install dist/*.whl && python -m {operator}")
    return 0
