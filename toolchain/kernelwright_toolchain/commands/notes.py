# SPDX-License-Identifier: MIT
"""`python -m toolchain notes`: what CHANGELOG.md says of the version that a tag names, for its release."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.files import given
from kernelwright_toolchain.locking.wanted import pyproject
from kernelwright_toolchain.project import project

CHANGES = "CHANGELOG.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tag", required=True, help="as in v1.2.3; it has to name the version of pyproject.toml")
    parser.add_argument("--out", type=given, metavar="FILE", help="without: to standard output")


def notes(version: str, text: str) -> str:
    """The section of one version; RequestError if there is none, or it still says that it is unreleased."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        if title.split()[0] != version:
            continue
        if "unreleased" in title:
            raise RequestError(f"{CHANGES} says {title!r}: write the day of the release there, and tag that commit")
        if not body.strip():
            raise RequestError(f"{CHANGES} says nothing of {version}")
        return body.strip() + "\n"
    raise RequestError(f"{CHANGES} has no section for {version}; it has {', '.join(parts[::2]) or 'none'}")


def run(arguments: argparse.Namespace) -> int:
    version = str(pyproject()["project"]["version"])
    if arguments.tag != f"v{version}":
        raise RequestError(
            f"the tag is {arguments.tag}, and pyproject.toml says {version}: tag the commit whose version it is "
            f"(v{version})"
        )
    found = notes(version, (project().root / CHANGES).read_text(encoding="utf-8"))
    if arguments.out:
        Path(arguments.out).write_text(found, encoding="utf-8")
    else:
        print(found, end="")
    return 0
