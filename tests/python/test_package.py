# SPDX-License-Identifier: MIT
"""`import kernelwright`: quick, quiet, and without torch until an operator is asked for."""

from __future__ import annotations

import pickle
import statistics

import pytest

import kernelwright
from kernelwright import _files, _library, errors
from tests.python.support import WITHOUT_TORCH, run

QUICK = """
import sys, time
before = set(sys.modules)
start = time.process_time()  # not the time of others, which CI's other tests take
import kernelwright
seconds = time.process_time() - start
print(seconds)
print(sorted(set(sys.modules) - before))
print("libkernelwright" in open("/proc/self/maps").read())
"""


def test_import_loads_nothing():
    seconds = []
    for _ in range(5):
        done = run(QUICK)
        assert done.returncode == 0, done.stderr
        took, modules, mapped = done.stdout.splitlines()
        # And two of its files: what shall refuse a child that was forked in the first call cannot be imported in it.
        assert modules == "['__future__', 'kernelwright', 'kernelwright._fork', 'kernelwright.errors']"
        assert mapped == "False"
        seconds.append(float(took))
    assert statistics.median(seconds) < 0.050, f"import kernelwright took {seconds} s"


def test_the_library_guards_its_stack():
    """Functions of the C library that end the process where an array on the stack is written past its end."""
    if _files.read("manifest.json")["debug"]:
        pytest.skip("a debug build has no FORTIFY, which needs optimised code")
    names = set(_files.whole_library().read_bytes().split(b"\0"))
    assert {b"__stack_chk_fail", b"__memcpy_chk", b"__vsnprintf_chk"} <= names


def test_an_operator_that_lacks_a_function_is_not_there():
    """Families share files: a build of other operators of its family may have some of its functions."""
    signatures, manifest = _files.read(_files.SIGNATURES), _files.read(_files.MANIFEST)
    images = {image["op"] for image in manifest["images"]}
    whole = _library.Library(_files.whole_library(), signatures, manifest)
    without = sorted(whole.ops - images)  # one with an image is damaged where a function is missing
    if not without:
        pytest.skip("every operator of this build has an image of its own")
    absent = {"kw_absent": {"header": f"{without[0]}.h", "arguments": [], "returns": "kw_status"}}
    more = {**signatures, "functions": {**signatures["functions"], **absent}}
    partly = _library.Library(_files.whole_library(), more, manifest)
    assert whole.ops - partly.ops == {without[0]}


def test_names():
    assert {"rms_norm", "ops", "nn", "errors", "__version__"} <= set(dir(kernelwright))
    assert kernelwright.__version__ == _files.read("manifest.json")["version"]
    with pytest.raises(AttributeError, match="no attribute 'rms_nrom'"):
        kernelwright.rms_nrom  # noqa: B018
    assert not hasattr(kernelwright, "_register")
    assert kernelwright.errors is errors


def test_without_torch():
    done = run(
        WITHOUT_TORCH
        + """
import kernelwright
from kernelwright import errors, ops
assert kernelwright.__version__
for name in ops.names():
    record = ops.record(name)
    record.bytes(record.cases[0]), record.flops(record.cases[0])
for ask in (lambda: kernelwright.rms_norm, lambda: kernelwright.nn, ops.register):
    try:
        ask()
    except ImportError as error:
        assert type(error) is errors.TorchMissing, error
        assert "pip install torch" in str(error) and "No module named 'torch'" in str(error), error
    else:
        raise AssertionError("torch is blocked")
assert "torch" not in sys.modules
print("fine")
"""
    )
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


def test_a_torch_that_is_too_old():
    done = run(
        """
import sys, types
torch = types.ModuleType("torch")
torch.__version__, torch.__file__ = "2.3.1+cu121", "/somewhere/torch/__init__.py"
sys.modules["torch"] = torch
import kernelwright
kernelwright.rms_norm
"""
    )
    assert done.returncode == 1
    assert (
        "TorchMissing: kernelwright's operators need torch 2.4 or newer, but /somewhere/torch/__init__.py is 2.3.1+cu121"
        in done.stderr
    )


@pytest.mark.torch
def test_a_torch_that_numbers_no_sets_of_dispatch_keys():
    """As 2.4, which is here by this alone: each call then goes through the dispatcher a second time."""
    done = run(
        """
import torch
if hasattr(torch._C.DispatchKeySet, "raw_repr"):
    del torch._C.DispatchKeySet.raw_repr
import kernelwright
x, weight = torch.randn(5, 33, requires_grad=True), torch.rand(33)
torch.testing.assert_close(kernelwright.rms_norm(x, weight), torch.nn.functional.rms_norm(x, (33,), weight, 1e-6))
kernelwright.rms_norm(x, weight).sum().backward()
found, x.grad = x.grad, None
torch.nn.functional.rms_norm(x, (33,), weight, 1e-6).sum().backward()
torch.testing.assert_close(found, x.grad)
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_first_use_in_threads_and_again():
    """Twenty threads ask at once; the operators are registered once, and everybody gets the same function."""
    done = run(
        """
import threading
import kernelwright
found, start = [], threading.Barrier(20)
def ask():
    start.wait()
    found.append(kernelwright.rms_norm)
threads = [threading.Thread(target=ask) for _ in range(20)]
[t.start() for t in threads], [t.join() for t in threads]
import torch
assert len(found) == 20 and len(set(found)) == 1
kernelwright.ops.register()
assert kernelwright.nn.RMSNorm(8)(torch.ones(2, 8)).allclose(torch.ones(2, 8))
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_first_use_inside_torch_compile():
    done = run(
        """
import torch, kernelwright
def program(x):
    return kernelwright.rms_norm(x * 2, eps=0.0) + 1
x = torch.randn(4, 8)
found = torch.compile(program, fullgraph=True, backend="eager")(x)
assert torch.equal(found, program(x))
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_functions_can_be_pickled():
    assert pickle.loads(pickle.dumps(kernelwright.rms_norm)) is kernelwright.rms_norm  # noqa: S301
