# SPDX-License-Identifier: MIT
"""The programs of five minutes in examples/ run as they are, and print what their page says they show."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

NEEDS = {
    "quantize_a_model": ("torch", "transformers", "accelerate"),
    "qlora_step": ("torch", "transformers", "accelerate", "peft"),
    "generate": ("torch", "transformers", "accelerate"),
    "xray_a_wheel": (),
    "own_package": (),
}


def said(name: str, *words: str, **more: str) -> str:
    """What the program prints; skipped where a library that it needs is not installed."""
    for library in NEEDS[name]:
        if importlib.util.find_spec(library) is None:
            pytest.skip(
                f"{library} is not installed; tests/integrations/requirements.txt has what the programs ran with"
            )
    env = {**os.environ, "HF_HUB_OFFLINE": "1", **more}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_program_has_a_test_and_a_line_on_its_page():
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")}
    page = (ROOT / "docs/five-minutes.md").read_text(encoding="utf-8")
    assert programs == set(NEEDS) == set(re.findall(r"^\| \[(\w+)\.py\]", page, re.MULTILINE))


def test_a_model_in_4_bits_is_smaller_and_comes_back_with_its_bits():
    out = said("quantize_a_model")
    dense, small = map(float, re.search(r"weights: ([\d.]+) MB in bfloat16, ([\d.]+) MB in NF4", out).groups())
    assert small < 0.45 * dense  # the embedding and the last layer stay
    assert 0.01 < float(re.search(r"differ by ([\d.]+)", out)[1]) < 0.5
    assert "saved and loaded: the same bits" in out


def test_the_loss_of_qlora_falls():
    out = said("qlora_step")
    losses = [float(value) for value in re.findall(r"^step \d: loss ([\d.]+)$", out, re.MULTILINE)]
    assert len(losses) == 8
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.85 * losses[0]
    assert "14 x LoRA layer" in out


def test_text_is_generated_with_everything_of_ours():
    out = said("generate")
    tokens = re.search(r"^tokens: ([\d ]+)$", out, re.MULTILINE)[1].split()
    assert len(tokens) == 32
    assert all(int(token) < 1000 for token in tokens)
    assert "4 x gated MLP" in out
    assert "9 x norm" in out


def test_xray_says_where_the_installed_package_runs():
    pytest.importorskip("kernelwright", reason="the kernelwright wheel is not installed here")
    out = said("xray_a_wheel")
    assert re.search(r"^h100 +(yes|no: .*aarch64)", out, re.MULTILINE)
    assert re.search(r"^t4 +no: it does not run on t4", out, re.MULTILINE)
    assert "verdicts" in out


@pytest.mark.slow
@pytest.mark.long
def test_a_package_of_ones_own_is_made_again_elsewhere_with_the_same_bytes(tmp_path):
    """Compilers are fetched once, as a person's first build does."""
    here = {"PYTHONPATH": str(ROOT / "toolchain")}
    out = said("own_package", str(tmp_path / "one"), **here)
    assert 'extern "C" __global__' in out
    ((digest, wheel),) = re.findall(r"^([0-9a-f]{64})  (\S+\.whl)$", out, re.MULTILINE)
    again = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "one/hello", again, ignore=shutil.ignore_patterns(".kw", "dist"))
    (again / ".kw").mkdir()
    (again / ".kw/tools").symlink_to(tmp_path / "one/hello/.kw/tools")
    command = [sys.executable, "-m", "kernelwright_toolchain.verbs", "build"]
    subprocess.run(command, cwd=again, check=True, capture_output=True, env={**os.environ, **here})
    made = again / "dist" / Path(wheel).name
    assert hashlib.sha256(made.read_bytes()).hexdigest() == digest
