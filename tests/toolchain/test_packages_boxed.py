# SPDX-License-Identifier: MIT
"""Operators of device-only packages in C: what of a table can be said in C, and that it says the same."""

from __future__ import annotations

import ast
import ctypes
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from kernelwright_toolchain.packages import boxed, table
from tests.toolchain.test_packages import AXPY, DRIVER, made, place  # noqa: F401 - a fixture

ACT = """
import ctypes, sys, torch
import two_kernels
from two_kernels import _operators as made
assert made._in_c_axpy == made._in_c_row_sum == (sys.argv[1] == "c"), made._in_c_axpy
if sys.argv[1] != "c":
    sys.exit(print("python", two_kernels.axpy(torch.ones(2), torch.ones(2), 2.0).tolist()))
driver = ctypes.CDLL("libcuda.so.1")
ctypes.c_int.in_dll(driver, "standin_computes").value = 1
library = torch.library.Library("standin", "DEF")
library.define("axpy(Tensor x, Tensor y, float a) -> Tensor")
assert made._implement("standin", "CPU", "axpy")
axpy = made._in_its_words(torch.ops.standin.axpy.default)
for dtype in (torch.float32, torch.float64):
    x, y = torch.rand(2, 10, 7, dtype=dtype)
    print((axpy(x, y, 0.1) - (0.1 * x + y)).abs().max().item() < 1e-6)
x = torch.ones(3000)
for bad in ((x, x[:2], 1.0), (x, x.double(), 1.0), (x.half(), x.half(), 1.0)):
    try: print("NOT REFUSED", axpy(*bad))
    except (ValueError, TypeError) as error: print(type(error).__name__, error)
def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4
def refused():
    try: axpy(x.clone(), x.clone()[:2], 1.0)
    except ValueError: pass
for call in (lambda: axpy(x.clone(), x.clone(), 1.0), refused):
    for _ in range(500): call()
    before = held()
    for _ in range(10000): call()
    print(held() - before < 20000)
"""


def test_what_cannot_surely_be_said_in_c_stays_pythons():
    for change in ({"returns": {"out": "torch.empty_like(x, dtype=torch.int8)"}}, {"require": ["a > 0.5"]}):
        assert boxed.source("p", [table.read("a", {**AXPY, **change})]) == ""
    strided = {"returns": {"out": "torch.empty_like(x)"}, "grid": "x.stride(0)"}
    assert boxed.source("p", [table.read("a", {**AXPY, **strided})]) == ""
    assert "kw_boxed_a" in boxed.source("p", [table.read("a", AXPY)])


def test_whole_numbers_are_rounded_as_python_rounds_them(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no cc on PATH")
    head = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdint.h>\n#include <string.h>\n"
    head += "static char kw_text[9];\nstatic int kw_fail(const char *f, ...) { return f != 0; }\n"
    tail = "".join(
        f"int64_t {name}(int64_t a, int64_t b, int *odd) {{ return kw_{name}(a, b, odd); }}\n"
        for name in ("div", "mod")
    )
    (tmp_path / "a.c").write_text(head + boxed.RUNTIME.read_text() + tail)
    subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", "a.so", "a.c"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "a.so"))
    for name in ("div", "mod"):
        call = getattr(library, name)
        call.restype, call.argtypes = ctypes.c_int64, [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        odd = ctypes.c_int(0)
        for a in range(-9, 10):
            for b in (-4, -3, -1, 1, 3, 4):
                assert call(a, b, ctypes.addressof(odd)) == (a // b if name == "div" else a % b), (name, a, b)
        assert not odd.value
        call(1, 0, ctypes.addressof(odd))
        assert odd.value


def test_shapes_are_joined_and_sliced():
    kernel = table.read("a", AXPY)
    said = boxed._Expressions(kernel).shape(ast.parse("x.shape[:-1] + (x.size(0) // 2,)", mode="eval").body)
    assert said == (
        "kw_join(kw_slice(kw_shape_of(t_x), 0, kw_sub(0, INT64_C(1), &odd)), "
        "(struct kw_shape){1, {kw_div(kw_at(t_x->sizes, t_x->dims, INT64_C(0), &odd), INT64_C(2), &odd)}}, &odd)"
    )


@pytest.mark.slow
def test_calls_in_c_are_right_refuse_in_words_and_free_all(place, tmp_path):  # noqa: F811
    torch = pytest.importorskip("torch")
    if shutil.which("cc") is None:
        pytest.skip("no cc on PATH")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", DRIVER], check=True)
    with zipfile.ZipFile(made(place, target=f"linux-{os.uname().machine}").wheel) as archive:
        archive.extractall(tmp_path / "in")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "in"), "LD_LIBRARY_PATH": str(tmp_path)}

    def said(route: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", ACT, route], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 10):
        assert said("c") == [
            "True", "True", "ValueError axpy: expected x.shape == y.shape",
            "TypeError axpy: y has dtype torch.float64, expected torch.float32",
            "TypeError axpy: dtype torch.float16 is not one of torch.float32, torch.float64", "True", "True",
        ]  # fmt: skip
    library = tmp_path / "in" / "two_kernels" / "libtwo_kernels.so"
    data = library.read_bytes()
    assert data.count(b"\0torch_library_impl\0") == 1
    library.write_bytes(data.replace(b"\0torch_library_impl\0", b"\0torch_library_none\0"))
    assert said("python") == ["python [3.0, 3.0]"]
