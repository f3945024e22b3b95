# SPDX-License-Identifier: MIT
"""Tiny shared libraries and wheels for the tests of gates and comparisons, made by whatever C compiler is here."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain import source
from kernelwright_toolchain.exact.wheel import _urlsafe
from kernelwright_toolchain.wheel import statement

INFO = "kernelwright-0.1.0.dist-info/"
NAME = "kernelwright-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
LIBRARY = "kernelwright/lib/libkernelwright.so"
RECIPE = {
    "build": {"target": "linux-x86_64", "toolkit": "cu122", "debug": "no"},
    "source": {"sha256": source.digest({"csrc/a.cpp": "a" * 64})},
    "inputs": {"csrc/a.cpp": "a" * 64},
    "locks": {"locks/x.txt": "1" * 64},
    "device_compiler": {"driver": "nvrtc", "version": "12.2.140"},
    "host_compiler": {"driver": "ziglang 0.17.0", "compile": ["-O3", "-fPIC"], "link": ["-s"], "sets": {"plain": []}},
}


def library(folder: Path, text: str, *flags: str) -> bytes:
    """A shared library of one C file; its own directory is in it only if the text asks for it."""
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler `cc` on PATH; ./kw tests puts zig there")
    (folder / "x.c").write_text(text, encoding="utf-8")
    command = [cc, "-shared", "-fPIC", "-O1", "-nostdlib", "-Wl,--build-id=none", "x.c", "-o", "x.so", *flags]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / "x.so").read_bytes()


def record(members: dict[str, bytes]) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, data in members.items():
        rows.writerow([name, f"sha256={_urlsafe(data)}", len(data)])
    rows.writerow([f"{INFO}RECORD", "", ""])
    return text.getvalue().encode()


def sealed(members: dict[str, bytes], recipe: dict[str, object] | None = None) -> dict[str, bytes]:
    """With a statement and a RECORD that are true."""
    kept = {name: data for name, data in members.items() if not name.startswith(INFO)}
    made = {**kept, f"{INFO}{statement.NAME}": statement.of_members(kept, recipe or RECIPE)}
    return {**made, f"{INFO}RECORD": record(made)}


def write(path: Path, members: dict[str, bytes], date: tuple[int, ...] = (1980, 1, 1, 0, 0, 0)) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name, date), members[name])  # type: ignore[arg-type]
    return path


def manifest(*images: tuple[str, str, bytes]) -> bytes:
    """(code, op, image) of each."""
    rows = [
        {"code": code, "op": op, "path": f"kernels/{code}/{op}.cubin", "sha256": hashlib.sha256(data).hexdigest()}
        for code, op, data in images
    ]
    return json.dumps({"images": rows, "compiler": RECIPE["device_compiler"]}).encode()
