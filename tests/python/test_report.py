# SPDX-License-Identifier: MIT
"""`python -m kernelwright`: the facts it prints, and that it fails when something is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kernelwright
from kernelwright import __main__ as report
from kernelwright import _environment, _files, _library, errors, ops
from tests.python.support import REPORT, WITHOUT_TORCH, run


def test_report():
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[-1] == "SUCCESS"
    facts = {line.split()[0]: line for line in lines[:-1]}
    manifest = _files.read("manifest.json")
    assert kernelwright.__version__ in facts["kernelwright"]
    for word in (manifest["target"], manifest["toolkit"], manifest["provider"]):
        assert word in facts["build"]
    assert manifest["compiler"]["version"] in facts["compiler"]
    assert set(facts["images"].split()[1:]) == {image["code"] for image in manifest["images"]}
    assert str(_files.locate(_files.LIBRARY)) in facts["library"]
    assert _library.load().text("kw_cpu_isa") in facts["cpu"]
    for name in _environment.MEANINGS:
        assert any(line.startswith("environment") and name in line for line in lines), name
    assert {"gpus", "torch", *ops.names()} <= set(facts)


def test_without_torch():
    done = run(WITHOUT_TORCH + REPORT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("SUCCESS\n")


def test_torch_is_looked_up_and_not_imported():
    done = run(
        "import sys, runpy\ntry:\n  runpy.run_module('kernelwright', run_name='__main__')\nexcept SystemExit: print('torch' in sys.modules)"
    )
    assert done.stdout.endswith("SUCCESS\nFalse\n"), done.stdout


def test_a_wrong_operator_fails_the_report(monkeypatch, capsys):
    name = ops.names()[0]
    monkeypatch.setitem(_library.load().functions, f"kw_{name}", lambda *_: 0)
    assert report.main() == 1
    printed = capsys.readouterr().out
    assert f"FAILED {name}: SelfCheckFailed: {name}, " in printed
    assert "SUCCESS" not in printed


class FakeDriver:
    """The library's functions for GPUs, as on a machine with two of them."""

    def __init__(self, library):
        self.library = library

    def device_count(self, count):
        count._obj.value = 2
        return 0

    def driver_version(self, version):
        version._obj.value = 12020
        return 0

    def device_capability(self, device, capability):
        capability._obj.value = (90, 30)[device]
        return 0


def test_gpus_and_their_images(monkeypatch, capsys):
    """On a machine with an H100 and a Kepler: which image the one gets, and why the other gets none."""
    library = _library.load()
    fake = FakeDriver(library)
    for name in ("device_count", "driver_version", "device_capability"):
        monkeypatch.setitem(library.functions, f"kw_{name}", getattr(fake, name))
    report._gpus()
    first, *each = capsys.readouterr().out.splitlines()
    assert first.endswith("2 with a driver of CUDA 12.2")
    old = [line for line in each if "GPU 1, compute capability 3.0: rms_norm cannot run: " in line]
    assert old, each
    assert any("GPU 0, compute capability 9.0: rms_norm " in line for line in each)


def test_a_driver_that_is_too_old_is_no_failure(monkeypatch, capsys):
    def fail(*_):
        raise errors.DriverTooOld("the driver is of CUDA 11.4, this wheel needs 12.2")

    monkeypatch.setattr(_library.Library, "call", fail)
    report._gpus()
    assert "none: the driver is of CUDA 11.4" in capsys.readouterr().out


def test_a_reader_that_goes_away():
    """As with `python -m kernelwright | head -1`: no traceback."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "kernelwright"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().startswith("kernelwright ")
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.gpu
def test_every_gpu_is_listed():
    done = run(REPORT)
    assert "GPU 0, compute capability " in done.stdout
    assert "rms_norm uses " in done.stdout
