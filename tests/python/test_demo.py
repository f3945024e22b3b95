# SPDX-License-Identifier: MIT
"""`python -m kernelwright.demo`: it says what every operator does here, and what is wrong if anything is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kernelwright import demo, ops
from tests.python.support import WITHOUT_TORCH, run

DEMO = "import runpy; runpy.run_module('kernelwright.demo', run_name='__main__', alter_sys=True)"


@pytest.mark.torch
@pytest.mark.slow
def test_the_quick_demo_has_a_line_for_every_overload_and_succeeds():
    done = run(DEMO, "--quick", "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "SUCCESS"
    for op in (ops.record(name) for name in ops.names()):
        for overload in {case.overload for case in op.benchmarks if case.dtype == "bfloat16"}:
            named = [line for line in lines if line.startswith(f"{op.qualified(op.overload(overload))} ")]
            assert len(named) == 1, (overload, done.stdout)
    assert any("outputs differ by" in line for line in lines)


def test_without_torch_it_says_what_to_install():
    done = run(WITHOUT_TORCH + DEMO, "--quick")
    assert done.returncode == 1
    assert "pip install torch" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.torch
@pytest.mark.parametrize("damage", [0.05, math.nan])
def test_a_wrong_result_is_told(damage, monkeypatch, capsys):
    op = ops.record("rms_norm")
    ops.register()
    first = op.overloads[0]
    damaged = replace(first, reference=lambda *args: first.reference(*args) + damage)
    case = replace(next(c for c in op.benchmarks if c.overload == first.name), shape=(3, 64), dtype="bfloat16")
    wrong = replace(op, overloads=(damaged,), benchmarks=(case,))
    monkeypatch.setattr(ops, "names", lambda: ("rms_norm",))
    monkeypatch.setattr(ops, "record", lambda _: wrong)
    _, said = demo._operators("cpu", demo.QUICK_BYTES["cpu"])
    assert len(said) == 1
    assert said[0].startswith("rms_norm 3x64 bfloat16 is off by")
    assert "WRONG" in capsys.readouterr().out
