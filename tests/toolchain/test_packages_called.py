# SPDX-License-Identifier: MIT
"""Operators of device-only packages as torch calls them in C: results, shapes and refusals beside Python's own.

Without a GPU: the kernels in C stand for the CPU too, and a driver that hands each launch to Python computes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from kernelwright_toolchain.packages import build, c, python, table
from tests.toolchain.test_packages import DRIVER, TABLE

SHAPES = (
    "x.shape[-2:]", "x.shape[:-1]", "x.shape[-3:-1]", "x.shape[-9:2]", "x.shape[1:-9]", "x.shape[2:1]",
    "x.shape[1:9]", "x.shape[:0] + (x.size(-1) - -2,)",
    "x.shape[1:2] + (x.size(0) * 2, -7 // -2) + x.shape[-1:]",
    "(x.stride(-2) % 4,)",
)  # fmt: skip
TABLES = {
    "mix": {
        "schema": "(Tensor x, Tensor y, int n, bool flip, float a) -> (Tensor, Tensor)",
        "dtypes": ["float32", "float64"], "free": ["y"],
        "require": ["x.shape[:-1] == y.shape[0:-1]", "n % 3 == 1 and y.size(-1) // 2 > -2"],
        "returns": {"low": "torch.empty_like(x)", "high": "y.new_empty(y.shape[-1:] + (x.size(0) * 2 - n, n))"},
        "args": ["x", "y", "n", "flip", "a", "low", "high", "x.numel()", "high.numel()"],
    },
    "scale_": {"schema": "(Tensor(a!) x, float a) -> ()", "returns": {}, "args": ["x", "a", "x.numel()"]},
    **{f"shape{n}": {"schema": "(Tensor x) -> Tensor", "returns": {"out": f"x.new_empty({text})"}, "args": ["x"]}
       for n, text in enumerate(SHAPES)},
}  # fmt: skip
LAUNCH = """
#define cuLaunchKernel standin_unused
#include "@driver@"
#undef cuLaunchKernel
int (*standin_launch)(const char *, void **), standin_code;
int cuLaunchKernel(const char *kernel, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
                   unsigned g, void *stream, void **at, void **more) {
  return standin_code ? standin_code : standin_launch(kernel, at);
}
"""
BEGIN = """
import ctypes, torch, warnings
from called import _operators as made
driver = ctypes.CDLL("libcuda.so.1")
code = ctypes.c_int.in_dll(driver, "standin_code")
slow = []  # a call that Python served
made._stream = lambda device: slow.append(device) or 0
for name in [name.removeprefix("_gpu_") for name in dir(made) if name.startswith("_gpu_")]:
    pack = getattr(made, f"_pack_{name}")  # the CPU's tensors are on device -1
    setattr(made, f"_pack_{name}", lambda *words, pack=pack: pack(*words[:-2], 0, words[-1]))
    assert getattr(made, f"_in_c_{name}") and made._implement("called", "CPU", name), name

def number(at, kind):
    return kind.from_address(at).value

def array(at, kind, count):
    return (kind * count).from_address(number(at, ctypes.c_void_p)) if count else []

def launch(kernel, at):
    if kernel == b"scale__float32":
        x = array(at[0], ctypes.c_float, number(at[2], ctypes.c_int64))
        x[:] = [one * number(at[1], ctypes.c_double) for one in x]
    if kernel.startswith(b"mix"):
        kind = ctypes.c_float if kernel.endswith(b"32") else ctypes.c_double
        n, flip, a = number(at[2], ctypes.c_int64), number(at[3], ctypes.c_int32), number(at[4], ctypes.c_double)
        x, low = (array(at[i], kind, number(at[7], ctypes.c_int64)) for i in (0, 5))
        low[:] = [one * a + n if flip == 1 else one for one in x]
        high = array(at[6], ctypes.c_int32, number(at[8], ctypes.c_int64))
        high[:] = [array(at[1], ctypes.c_int32, 1)[0] + n] * len(high)
    return 0

keep = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p))(launch)
ctypes.c_void_p.in_dll(driver, "standin_launch").value = ctypes.cast(keep, ctypes.c_void_p).value

def refused(call, *words):
    try: return "NOT REFUSED", call(*words)
    except BaseException as error: return type(error), str(error).splitlines()[0]

def mixed(x, y, n, flip, a):
    low = x * a + n if flip else x
    return low, (y.flatten()[0] + n).expand(y.size(-1), x.size(0) * 2 - n, n)

def same(found, right):
    for one, other in zip(found, right, strict=True):
        assert one.shape == other.shape and one.is_contiguous() and one.dtype == other.dtype, (one.shape, other.shape)
        torch.testing.assert_close(one, other.contiguous())
"""
ARGUMENTS = """
for kind in (torch.float32, torch.float64):
    for n, flip, a in ((1, True, 0.1), (1, False, 2.0), (4, True, -3.7)):
        words = torch.rand(5, 3, 7, dtype=kind), torch.arange(90, dtype=torch.int32).reshape(5, 3, 6) + 3, n, flip, a
        same(made.mix(*words), mixed(*words))
x = torch.rand(4, 3)
right = x * 2.5
assert made.scale_(x, 2.5) is None and torch.equal(x, right)
assert not slow
other = torch.arange(90, dtype=torch.int32).reshape(6, 3, 5).permute(2, 1, 0)
words = torch.rand(7, 3, 5).permute(2, 1, 0), other, 1, True, 0.5
same(made.mix(*words), mixed(*words))
assert len(slow) == 1
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    made.mix(words[0].requires_grad_(), *words[1:])[0].sum().backward()
assert len(slow) == 2 and len(told) == 1 and str(told[0].message).startswith("called::mix: an autograd kernel"), told
assert refused(made.scale_, x.T, 2.0)[0] is ValueError and torch.equal(x, right)
assert len(slow) == 2
"""
RUN_SHAPES = """
for shape in ((2, 3, 4), (5, 7), (1, 2, 3, 4, 5), (3, 0, 2), (6,)):
    x = torch.rand(shape)
    for n, text in enumerate(SHAPES):
        call = getattr(made, f"shape{n}")
        try:
            right = eval(text)
        except IndexError as error:
            assert refused(call, x) == (IndexError, str(error)), text
            continue
        found = call(x)
        assert found.shape == right and found.is_contiguous(), (text, found.shape, right)
assert not slow
"""
FAILURES = """
def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

def fail():
    assert refused(made.mix, torch.rand(50, 60), torch.ones(50, 60, dtype=torch.int32), 1, True, 1.0) == failed

failed = RuntimeError, "mix_float32: ERROR (an error)"
code.value = 1
for _ in range(500): fail()
before = held()
for _ in range(5000): fail()
assert held() - before < 20000, held() - before
assert refused(made.scale_, torch.ones(3), 1.0) == (RuntimeError, "scale__float32: ERROR (an error)")
assert not slow
words = torch.rand(5, 3), torch.ones(5, 3, dtype=torch.int32), 1, True, 1.0
half = words[0].half(), *words[1:]
wrong = TypeError, "mix: dtype torch.float16 is not one of torch.float32, torch.float64"
assert refused(torch.ops.called.mix.default, *half) == (RuntimeError, wrong[1])
assert refused(made.mix, *words) == failed  # and not what the call before left
assert refused(made.mix, *half) == wrong
assert refused(made.mix, *words[:2], 2, True, 1.0)[1] == "mix: expected n % 3 == 1 and y.size(-1) // 2 > -2"
code.value = 0
same(made.mix(*words), mixed(*words))
for error in (MemoryError(), KeyboardInterrupt(), ValueError("größer")):
    def stopped(*given): raise error
    made._stream = stopped
    turned = words[0].T.contiguous().T
    assert refused(torch.ops.called.mix.default, turned, *words[1:])[0] is RuntimeError
    code.value = 1
    assert refused(made.mix, *words) == failed
    code.value = 0
    try: made.mix(turned, *words[1:])
    except BaseException as found: assert found is error
    else: raise AssertionError("not raised")
"""
COMPILED = """
words = torch.rand(5, 3), torch.ones(5, 3, dtype=torch.int32), 1, True, 0.5
torch.library.opcheck(torch.ops.called.mix.default, words)
torch.library.opcheck(torch.ops.called.scale_.default, (torch.rand(3), 0.5))
assert not slow
compiled = torch.compile(lambda x, *more: made.mix(x * 2, *more), fullgraph=True, backend="aot_eager")
same(compiled(*words), mixed(words[0] * 2, *words[1:]))

def scaled(x):
    x = x + 1
    made.scale_(x, 3.0)
    return x * 2

x = torch.rand(4)
torch.testing.assert_close(torch.compile(scaled, fullgraph=True, backend="aot_eager")(x), (x + 1) * 6)
assert not slow
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """That of a Python which finds the package `called` and its driver."""
    torch = pytest.importorskip("torch")
    if shutil.which("cc") is None:
        pytest.skip("no cc on PATH")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10):
        pytest.skip("a torch before 2.10 calls them in Python")
    place = tmp_path_factory.mktemp("in")
    code = next(one for one in TABLE.codes.values() if one.kind == "cubin" and one.native.parts == (9, 0))
    common = {"source": "a.cu", "dtypes": ["float32"], "grid": "1", "block": "1"}
    kernels = [table.read(name, {**common, **one, "entry": f"{name}_{{dtype}}"}) for name, one in TABLES.items()]
    (place / "called").mkdir()
    (place / "image").write_bytes(b"none")
    (place / "launcher.c").write_text(c.source("called", kernels, {("a", code.name): "image"}, [code]))
    (place / "driver.c").write_text(LAUNCH.replace("@driver@", str(DRIVER)))
    to = ("-o", "called/libcalled.so", "launcher.c", "-ldl", "-lpthread")
    subprocess.run(["cc", *build.FLAGS, *to], cwd=place, check=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"], cwd=place, check=True)
    (place / "called" / "__init__.py").write_text(python.init("called", "", kernels))
    (place / "called" / "_operators.py").write_text(python.operators("called", kernels))
    return {**os.environ, "PYTHONPATH": str(place), "LD_LIBRARY_PATH": str(place)}


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(ARGUMENTS, id="arguments, results and strides"),
        pytest.param(f"SHAPES = {SHAPES!r}\n{RUN_SHAPES}", id="shapes"),
        pytest.param(FAILURES, id="failures"),
        pytest.param(COMPILED, id="compiled"),
    ],
)
def test_calls_in_c_do_as_python_does(environment, tmp_path, act):
    (tmp_path / "act.py").write_text(BEGIN + act)
    done = subprocess.run(
        [sys.executable, tmp_path / "act.py"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
