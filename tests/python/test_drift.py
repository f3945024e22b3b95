# SPDX-License-Identifier: MIT
"""A torch that has lost a name: results stay right, by the next way; no call fails because of it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kernelwright
from kernelwright import _library
from tests.tree import ROOT

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

PRIVATE = (
    "_AutoDispatchBelowAutograd", "_ExcludeDispatchKeyGuard", "DispatchKeySet", "DispatchKey", "_current_level",
    "_are_functorch_transforms_active", "_after_autograd_keyset", "_after_ADInplaceOrView_keyset",
)  # fmt: skip
SHIM = (ROOT / "csrc/torch/shim.h").read_text(encoding="utf-8")


def names(table: str) -> list[str]:
    """Of a table of csrc/torch/shim.h."""
    text = SHIM.partition(f"#define KW_SHIM_{table}(X)")[2]
    return re.findall(r'^  X\(\w+, "(\w+)"', text.partition("\n\n")[0], flags=re.MULTILINE)


def run(lacked: str, folder: Path | None = None) -> list[str]:
    path = {
        "PYTHONPATH": os.pathsep.join(filter(None, [folder and str(folder), os.environ.get("PYTHONPATH"), str(ROOT)]))
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.python.drift_program", lacked],
        env=os.environ | path, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def misspell(text: bytes, name: str) -> bytes:
    """The library with another name in its place, which no torch has."""
    old = f"\0{name}\0".encode()
    assert text.count(old) == 1, f"{name} stands {text.count(old)} times in the library"
    return text.replace(old, b"\0" + b"?" * len(name) + b"\0")


@pytest.fixture(scope="module")
def library() -> bytes:
    return Path(_library.load().path).read_bytes()


@pytest.fixture(scope="module")
def shim() -> None:
    loaded = _library.load()
    loaded.functions["kw_torch_implement"](b"no such operator", b"()")
    words = loaded.functions["kw_last_error"]()
    if b"a newer torch has" in words:
        pytest.skip(words.decode())


@pytest.mark.parametrize("lacked", PRIVATE)
def test_without_a_name_that_is_not_public(lacked):
    assert lacked in run(lacked)


def test_no_other_name_is_looked_up():
    # Those for GPUs are looked up where a call runs on one.
    assert set(run("")) - {"_cuda_getCurrentRawStream"} == set(PRIVATE)


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize("lacked", [*names("READS"), *names("WRITES"), "aoti_torch_dtype_int8"])
def test_a_function_of_the_shim_that_is_missing_is_named(lacked, library, tmp_path):
    """Then kernels in Python are registered, as for a torch that never had it."""
    torch.empty(0)
    (tmp_path / "lib.so").write_bytes(misspell(library, lacked))
    planted = ctypes.CDLL(str(tmp_path / "lib.so"))
    planted.kw_last_error.restype = ctypes.c_char_p
    assert planted.kw_torch_implement(b"rms_norm", b"()") == _library.load().constants["KW_ERROR_UNSUPPORTED"]
    assert b"has no " + b"?" * len(lacked) in planted.kw_last_error()


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize("lacked", ["torch_library_impl", "torch_string_c_str", *names("LATER")])
def test_without_a_function_of_the_shim(lacked, library, tmp_path):
    """The first two: no kernels in C; the others: what later releases have."""
    package = Path(kernelwright.__file__).parent
    shutil.copytree(package, tmp_path / "kernelwright", ignore=shutil.ignore_patterns("__pycache__"))
    planted = tmp_path / "kernelwright" / Path(_library.load().path).relative_to(package)
    planted.write_bytes(misspell(library, lacked))
    run("", tmp_path)
