# SPDX-License-Identifier: MIT
"""The folder for Hugging Face's `kernels`: what is in it, and which wheels are refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.hub.folder import DOOR, VARIANT, make
from tests.tree import ROOT

X86 = "kernelwright-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
ARM = "kernelwright-0.1.0-py3-none-manylinux_2_28_aarch64.whl"


def wheel(place: Path, name: str, version: str = "0.1.0", member: str = "kernelwright/__init__.py") -> Path:
    path = place / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kernelwright/manifest.json", json.dumps({"schema": 1, "version": version}))
        archive.writestr(member, f"# {name}\n")
        archive.writestr("kernelwright-0.1.0.dist-info/METADATA", "Name: kernelwright\n")
    return path


def test_the_command_lays_both_machines_beside_one_door(tmp_path):
    wheels, out = [wheel(tmp_path, X86), wheel(tmp_path, ARM)], tmp_path / "hub"
    words = [sys.executable, "-m", "toolchain", "hub", *map(str, wheels), "--out", str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    variant = out / VARIANT
    files = {path.relative_to(variant).as_posix() for path in variant.rglob("*") if path.is_file()}
    assert files == {
        "__init__.py", "metadata.json", *(
            f"{machine}/kernelwright/{name}" for machine in ("x86_64", "aarch64") for name in ("__init__.py", "manifest.json")
        ),
    }  # fmt: skip
    assert (variant / "aarch64/kernelwright/__init__.py").read_text(encoding="utf-8") == f"# {ARM}\n"
    assert (variant / "__init__.py").read_bytes() == DOOR.read_bytes()
    metadata = json.loads((variant / "metadata.json").read_text(encoding="utf-8"))
    assert (metadata["id"], metadata["name"], metadata["license"]) == ("kernelwright_0_1_0", "kernelwright", "MIT")
    card = (out / "README.md").read_text(encoding="utf-8")
    for one in wheels:
        assert f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}" in card


@pytest.mark.parametrize(
    ("names", "more", "words"),
    [
        (["kernelwright-0.1.0.tar.gz"], {}, "no wheel of kernelwright's for a machine"),
        ([X86, "kernelwright-0.1.0-py3-none-linux_x86_64.whl"], {}, "second wheel for x86_64"),
        ([X86], {"member": "kernelwright/../../../outside.py"}, "leads out of the folder"),
    ],
)
def test_wheels_that_do_not_go_together_are_refused(tmp_path, names, more, words):
    wheels = [wheel(tmp_path, name, **more) for name in names]
    with pytest.raises(RequestError, match=words):
        make(wheels, tmp_path / "deep" / "hub", "kernelwright")
    assert not list(tmp_path.rglob("outside.py"))


def test_two_versions_and_a_folder_in_use_are_refused(tmp_path):
    wheels = [wheel(tmp_path, X86), wheel(tmp_path, ARM, version="0.2.0")]
    with pytest.raises(RequestError, match="several versions"):
        make(wheels, tmp_path / "hub", "kernelwright")
    with pytest.raises(RequestError, match="is not empty"):
        make(wheels[:1], tmp_path / "hub", "kernelwright")
