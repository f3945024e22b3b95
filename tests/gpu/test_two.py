# SPDX-License-Identifier: MIT
"""The script that a machine with two GPUs is given: what each step found is kept, also when the next one hangs."""

from __future__ import annotations

import json
import sys
import time

import pytest

from tests.gpu import two
from tests.gpu.two import Record, Step


def step(name, code, seconds=30, **more):
    return Step(name, seconds, [sys.executable, "-c", code], **more)


def writes(out, name, found):
    return f"open({str(out / name) + '.json'!r}, 'w').write({json.dumps(found)!r})"


def test_each_step_is_kept(tmp_path):
    steps = [
        step("good", writes(tmp_path, "good", {"ok": True, "figure": 3})),
        step("wrong", writes(tmp_path, "wrong", {"ok": False})),
        step("partly", writes(tmp_path, "partly", {"figure": 4}) + "; raise SystemExit('the second half')"),
        step("hangs", writes(tmp_path, "hangs", {"ok": True}) + "; import time; time.sleep(60)", 3),
        step("printed", "print('5 passed')"),
    ]
    record = Record(tmp_path, {"commit": "abc"})
    two.run(steps, tmp_path, time.monotonic() + 60, record)
    kept = json.loads((tmp_path / "two.json").read_text())
    assert kept["machine"] == {"commit": "abc"}
    found = {name: (row["ok"], row["said"]) for name, row in kept["steps"].items()}
    assert found == {
        "good": (True, "ok"),
        "wrong": (False, "ok"),
        "partly": (False, "exit code 1"),
        "hangs": (False, "cut off"),
        "printed": (True, "ok"),
    }
    assert kept["steps"]["good"]["found"]["figure"] == 3
    assert kept["steps"]["partly"]["found"]["figure"] == 4
    assert kept["steps"]["printed"]["last"] == "5 passed"
    assert not record.well


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_steps_have_names_and_files_of_their_own(device, tmp_path):
    steps = two.steps(tmp_path, device)
    assert len({each.name for each in steps}) == len(steps)
    for each in steps:
        if "tests.gpu.pair" in " ".join(each.command):
            assert str(tmp_path / f"{each.name}.json") in each.command


def test_multicast_stays_off(tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    names = ("NCCL_NVLS_ENABLE", "NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST")
    code = f"import os; print(*(os.environ[name] for name in {names}))"
    two.run([step("shown", code)], tmp_path, time.monotonic() + 60, Record(tmp_path, {}))
    assert (tmp_path / "shown.txt").read_text() == "0 1 1\n"
