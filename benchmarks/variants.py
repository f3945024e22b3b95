# SPDX-License-Identifier: MIT
"""Wheels that differ in a number or two, so that one GPU session can compare them: `make` here, `run` there.

    python benchmarks/variants.py make FOLDER three:KW_TILE_STAGES=3 small:KW_TILE32_WARPS=8,KW_TILE64_WARPS=4
    python benchmarks/variants.py run FOLDER --out DIR --cases 'default-1x*' …

A variant is a name and the macros of csrc/ops/<family>/*_tuning.h that it defines otherwise; `as-is` is made too.
What `run` does not know is benchmarks/run.py's, which it calls with each wheel in turn and the peers left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AS_IS = "as-is"
LEFT_OUT = shutil.ignore_patterns(".git", "build", "cache", "dist", "__pycache__", ".kw")


def changed(text: str, numbers: dict[str, str]) -> str:
    """A header with other numbers; those it had are taken out of `numbers`."""
    for name in list(numbers):
        text, count = re.subn(rf"^(#define {name} )\S+$", rf"\g<1>{numbers[name]}", text, flags=re.MULTILINE)
        if count:
            del numbers[name]
    return text


def make(folder: Path, variant: str, options: list[str]) -> Path:
    """Builds one in a copy of the tree, which shares the compilers and the compile cache; its unpacked wheel."""
    name, _, words = variant.partition(":")
    numbers = dict(word.split("=", 1) for word in words.split(",") if word)
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    (tree / ".kw").mkdir()
    for shared in ("tools", "cache"):
        (tree / ".kw" / shared).symlink_to(ROOT / ".kw" / shared)
    for header in (tree / "csrc/ops").glob("*/*_tuning.h"):
        header.write_text(changed(header.read_text(encoding="utf-8"), numbers), encoding="utf-8")
    if numbers:
        raise SystemExit(f"{variant}: no csrc/ops/<family>/*_tuning.h defines {', '.join(numbers)}")
    subprocess.run([sys.executable, "-m", "toolchain", "build", *options], cwd=tree, check=True)
    (wheel,) = (tree / "dist").glob("*.whl")
    shutil.rmtree(folder / name, ignore_errors=True)
    zipfile.ZipFile(wheel).extractall(folder / name)
    shutil.rmtree(tree)
    return folder / name


def run(folder: Path, out: Path, arguments: list[str]) -> int:
    """Every variant's results go to a folder of its own."""
    worst = 0
    for variant in sorted(path.parent for path in folder.glob("*/kernelwright")):
        print(f"--- {variant.name}", flush=True)
        command = [sys.executable, str(ROOT / "benchmarks/run.py"), "--peers", "none", "--no-plot", *arguments]
        done = subprocess.run(
            [*command, "--out", str(out / variant.name)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(variant), os.environ.get("PYTHONPATH", "")))},
            check=False,
        )
        worst = max(worst, done.returncode)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("variants", nargs="*", metavar="NAME:MACRO=N,…")
    making.add_argument("--archs", default="90a")
    making.add_argument("--ops", default="matmul_4bit,dequantize_4bit,quantize_4bit")
    running = verbs.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--out", type=Path, required=True)
    given, rest = parser.parse_known_args()
    if given.verb == "run":
        return run(given.folder, given.out, rest)
    given.folder.mkdir(parents=True, exist_ok=True)
    for variant in (AS_IS, *given.variants):
        print(make(given.folder, variant, ["--archs", given.archs, "--ops", given.ops]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
