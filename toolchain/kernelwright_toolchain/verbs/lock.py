# SPDX-License-Identifier: MIT
"""`kwt lock`: writes what the project's own backend needs into kernelwright-build.txt, by version and hash."""

from __future__ import annotations

import argparse

from kernelwright_toolchain.classic import requirements
from kernelwright_toolchain.verbs._project import add_project, opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser)


def run(given: argparse.Namespace) -> int:
    with opened(given) as settings:
        needed = requirements.wanted(settings.root, settings.backend) if settings.backend else []
        if not needed:
            print("nothing to lock: the toolchain's own locks have all that this project's build needs")
            return 0
        path = settings.root / requirements.LOCK
        text = requirements.pinned(needed)
        path.write_text(text, encoding="utf-8")
        print(f"{path}: {text.count('--hash=')} packages for {', '.join(needed)}")
    return 0
