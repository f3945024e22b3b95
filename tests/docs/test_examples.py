# SPDX-License-Identifier: MIT
"""The examples that README.md and docs/ show are run as they stand there, against the installed package."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def block(page: str, language: str, holding: str) -> str:
    """The one code block of this language on the page that holds these words."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [
        code
        for code in re.findall(rf"^```{language}\b[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if holding in code
    ]
    assert len(found) == 1, f"{page} has {len(found)} {language} blocks with {holding!r}"
    return found[0]


@pytest.fixture(scope="module")
def package() -> Path:
    """The directory of the installed package, with its library."""
    kernelwright = pytest.importorskip("kernelwright", reason="the kernelwright wheel is not installed here")
    return Path(kernelwright.__file__).parent


@pytest.mark.torch
def test_the_lines_of_python_in_the_readme(package: Path):
    torch = pytest.importorskip("torch", reason="the operators need torch")
    names: dict[str, object] = {}
    exec(compile(block("README.md", "python", "kernelwright"), "README.md", "exec"), names)  # noqa: S102
    x, h, y = names["x"], names["h"], names["y"]
    torch.testing.assert_close(h, x + x)
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(h, (4096,)))
    assert [type(layer).__name__ for layer in names["model"]] == ["Linear4bit", "SiLU", "Linear"]
    assert names["z"].shape == (8, 8)
    from kernelwright import nn

    torch.testing.assert_close(names["z"], nn.dequantize_(names["model"])(y), rtol=1e-3, atol=1e-4)


@pytest.mark.torch
def test_attention_as_its_page_shows_it(package: Path):
    torch = pytest.importorskip("torch", reason="the operators need torch")
    from kernelwright.integrations import torch as hook

    page, names = "docs/attention.md", {}
    for holding in ("kernelwright.attention(q", "kernelwright_torch.enable()", "flash_attn_func(q"):
        exec(compile(block(page, "python", holding), page, "exec"), names)  # noqa: S102
    assert not hook.enabled()
    q, k, v = (names[name].transpose(1, 2).float() for name in "qkv")
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(names["out"].transpose(1, 2).float(), exact, rtol=2e-2, atol=2e-2)


@pytest.mark.torch
def test_the_first_lines(package: Path):
    torch = pytest.importorskip("torch", reason="the operators need torch")
    names: dict[str, object] = {}
    page = "docs/start.md"
    exec(compile(block(page, "python", "kernelwright.rms_norm(x, weight)"), page, "exec"), names)  # noqa: S102
    x, h = names["x"], names["h"]
    torch.testing.assert_close(h, x + x)
    # The module on x alone, with a weight of ones and torch's default eps; the last line is the gate.
    torch.testing.assert_close(names["norm"](x), torch.nn.functional.rms_norm(x, (4096,)))
    gate, up = x.chunk(2, -1)
    torch.testing.assert_close(names["y"], torch.nn.functional.silu(gate) * up)


@pytest.mark.torch
def test_the_lines_about_4_bits(package: Path):
    torch = pytest.importorskip("torch", reason="the operators need torch")
    names: dict[str, object] = {}
    exec(compile(block("docs/start.md", "python", "quantize_(model"), "docs/start.md", "exec"), names)  # noqa: S102
    assert [type(layer).__name__ for layer in names["model"]] == ["Linear4bit", "SiLU", "Linear"]
    page = "docs/quantization.md"
    exec(compile(block(page, "python", "dequantize_(model)"), page, "exec"), names)  # noqa: S102
    model, x = names["model"], torch.randn(3, 256).bfloat16()
    assert [type(layer).__name__ for layer in model] == ["Linear", "SiLU", "Linear"]
    assert model[0].weight.unique().numel() <= 16 * (256 * 512 // 64)
    assert model(x).shape == names["y"].shape
    exec(compile(block(page, "python", "import kernelwright.compat.bitsandbytes"), page, "exec"), names)  # noqa: S102
    wide = names["bnb"].functional.dequantize_4bit(names["packed"], names["state"])
    assert wide.shape == (64, 128)
    assert names["y"].shape == (3, 64)


@pytest.fixture(scope="module")
def cmake() -> str:
    found = shutil.which("cmake")
    if not found or not (shutil.which("c++") or shutil.which("g++")):
        pytest.skip("the C++ example needs cmake and a C++ compiler on PATH")
    return found


def test_the_program_on_the_page_of_the_c_library(package: Path, cmake: str, tmp_path: Path):
    (tmp_path / "CMakeLists.txt").write_text(block("docs/c-api.md", "cmake", "find_package"), encoding="utf-8")
    (tmp_path / "app.cpp").write_text(block("docs/c-api.md", "cpp", "int main"), encoding="utf-8")
    where = block("docs/c-api.md", "sh", "kernelwright_DIR").strip().replace("$(python ", f"$({sys.executable} ")
    subprocess.run(["bash", "-ec", where], cwd=tmp_path, check=True, capture_output=True, text=True)
    subprocess.run([cmake, "--build", "build"], cwd=tmp_path, check=True, capture_output=True, text=True)
    said = subprocess.run([tmp_path / "build" / "app"], check=True, capture_output=True, text=True).stdout
    # Every element is 2, so its norm is 2 / sqrt(4 + eps).
    assert re.fullmatch(r"1\.000000, by \w+ on \d+ threads\n", said), said


def test_the_options_of_the_build():
    """The page's table names exactly what `./kw build --` takes."""
    from kernelwright_toolchain import targets
    from kernelwright_toolchain.building.options import add_arguments

    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser, targets.load())
    taken = {option for action in parser._actions for option in action.option_strings}
    page = (ROOT / "docs/options.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`--?\w+`(?:, )?)+) \|", page, re.MULTILINE)
    assert {option for row in rows for option in re.findall(r"`(--?\w+)`", row)} == taken
