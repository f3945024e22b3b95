# SPDX-License-Identifier: MIT
"""Writes the tables of README.md that targets.toml and the operators' records make; --check only compares."""

from __future__ import annotations

import argparse
from pathlib import Path

from toolchain.targets import ROOT, render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="change nothing; fail if README.md is stale")


def run(args: argparse.Namespace, root: Path = ROOT) -> int:
    if args.check:
        render.check(root)
        print("README.md is what targets.toml and the operators' records make it")
        return 0
    page = render.page(root)
    wanted = render.fresh(root)
    same = page.read_text(encoding="utf-8") == wanted
    if not same:
        page.write_text(wanted, encoding="utf-8")
    print(f"README.md: {'unchanged' if same else 'written'}")
    return 0
