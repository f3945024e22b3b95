# SPDX-License-Identifier: MIT
"""Writes documents' tables and the workflows from targets.toml and the operators' records; --check only compares."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import load, render
from kernelwright_toolchain.workflows import render as workflows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file is stale")


def run(args: argparse.Namespace, root: Path | None = None) -> int:
    root = root or project().root
    if args.check:
        render.check(root)
        workflows.check(load(root / "targets.toml"), root)
        print("the documents and the workflows are what targets.toml and the operators' records make them")
        return 0
    for page, wanted in render.pages(root).items():
        written = write_if_changed(page, wanted.encode())
        print(f"{page.relative_to(root)}: {'written' if written else 'unchanged'}")
    for name, text in workflows.made(load(root / "targets.toml")).items():
        print(f"{name}: {'written' if write_if_changed(root / name, text.encode()) else 'unchanged'}")
    return 0
