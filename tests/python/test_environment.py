# SPDX-License-Identifier: MIT
"""The environment variables: what each does, and what a wrong value gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kernelwright
from kernelwright import _environment, _files, errors
from kernelwright.doctor._check import Grade
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.report.command import exit_code
from tests.python.support import run

USE = """
import torch, kernelwright
x, w, r = torch.randn(3, 40), torch.randn(40), torch.randn(3, 40)
y, h = kernelwright.rms_norm(x, w, r)
expected = torch.nn.functional.rms_norm(x + r, (40,), w, 1e-6)
torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-6)
assert torch.equal(h, x + r)
print("libkernelwright" in open("/proc/self/maps").read())
"""


@pytest.mark.torch
def test_disable():
    for value, loaded in (("1", "False"), ("yes", "False"), ("0", "True"), ("", "True")):
        done = run(USE, KERNELWRIGHT_DISABLE=value)
        assert done.stdout.strip() == loaded, f"KERNELWRIGHT_DISABLE={value!r}: {done.stderr}"


@pytest.mark.torch
def test_disabled_operators_are_whole():
    """The reference path has the same refusals, gradients, fakes and in-place behaviour."""
    done = run(
        """
import torch, kernelwright
from kernelwright import errors
x, w, r = (torch.randn(*s, requires_grad=True) for s in ((3, 40), (40,), (3, 40)))
kernelwright.rms_norm
op = torch.ops.kernelwright.rms_norm
torch.library.opcheck(op.default, (x, w, 1e-6))
torch.library.opcheck(op.residual, (x, r, w, 1e-6))
torch.library.opcheck(op.residual_, (x.detach(), r.detach().clone(), w.detach(), 1e-6))
for wrong in (lambda: kernelwright.rms_norm(x, w[:3]), lambda: kernelwright.rms_norm(x.int()), lambda: kernelwright.rms_norm(x, w, r, inplace=True)):
    try:
        wrong()
    except errors.KernelwrightError as error:
        print(type(error).__name__)
""",
        KERNELWRIGHT_DISABLE="1",
    )
    assert done.stdout.split() == ["InvalidArgument", "InvalidDtype", "Unsupported"], done.stderr


def found(code):
    return {"code": code, "grade": Grade.FAILS.value, "area": all_causes()[code].area.value, "explained_by": None}


@pytest.mark.parametrize(
    ("variable", "value", "words", "code"),
    [
        ("KERNELWRIGHT_DISABLE", "perhaps", "KERNELWRIGHT_DISABLE='perhaps' is neither yes", None),
        (
            "KERNELWRIGHT_KERNELS",
            "/no/such/directory",
            "KERNELWRIGHT_KERNELS='/no/such/directory' is not a directory",
            None,
        ),
        ("KERNELWRIGHT_KERNELS", __file__, "is not a directory", None),
        ("KERNELWRIGHT_ARCH", "x" * 5000, "KERNELWRIGHT_ARCH='xxx", "KW-078"),
    ],
)
def test_impossible_values(variable, value, words, code):
    """Also in the report, which then must not say SUCCESS, and ends by the code that it names."""
    program = (
        "from kernelwright import _library; _library.load()"
        if variable != "KERNELWRIGHT_DISABLE"
        else ("from kernelwright import _environment; _environment.read()")
    )
    done = run(program, **{variable: value})
    assert done.returncode == 1
    assert "InvalidEnvironment: " in done.stderr
    assert words in done.stderr
    report = run("import runpy; runpy.run_module('kernelwright', run_name='__main__')", **{variable: value})
    assert report.returncode == (1 if code is None else exit_code({"findings": [found(code)]}))
    assert code is None or f"{code} " in report.stdout
    assert words in report.stdout
    assert "SUCCESS" not in report.stdout


def test_one_file_reads_the_environment():
    """And it knows every variable that the package's texts name."""
    named = set()
    for entry in kernelwright.__path__:
        for path in Path(entry).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            named |= set(re.findall(r"KERNELWRIGHT_[A-Z_]+", text))
            if path.name != "_environment.py":
                assert not re.search(r"\bos\.environ|\bgetenv\b|import environ", text), path
    assert named == set(_environment.MEANINGS)
    assert len(named) <= 5


def test_settings(monkeypatch, tmp_path):
    for name in _environment.MEANINGS:
        monkeypatch.delenv(name, raising=False)
    assert _environment.read() == _environment.Settings(disable=False, kernels="", arch="")
    monkeypatch.setenv("KERNELWRIGHT_DISABLE", " True ")
    monkeypatch.setenv("KERNELWRIGHT_KERNELS", str(tmp_path))
    monkeypatch.setenv("KERNELWRIGHT_ARCH", "sm_90a")
    assert _environment.read() == _environment.Settings(disable=True, kernels=str(tmp_path), arch="sm_90a")
    assert ("KERNELWRIGHT_ARCH", "sm_90a", _environment.MEANINGS["KERNELWRIGHT_ARCH"]) in _environment.describe()
    monkeypatch.setenv("KERNELWRIGHT_DISABLE", "2")
    with pytest.raises(errors.InvalidEnvironment):
        _environment.read()


def test_targets_are_readable():
    codes = _files.read("targets.json")["codes"]
    assert {image["code"] for image in _files.read("manifest.json")["images"]} <= set(codes)
