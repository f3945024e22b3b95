# SPDX-License-Identifier: MIT
"""A package of AOTInductor that uses our operators, run where nothing but kw_torch_register() was called.

One package is made, with GCC, and run twice: by examples/aoti, a program without Python, and by a Python that does not
import kernelwright before it has run.
"""

from __future__ import annotations

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
pytestmark = [pytest.mark.torch, pytest.mark.slow]

MAKE = """
import sys
import torch
import kernelwright
from kernelwright import nn

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.RMSNorm(64), nn.LayerNorm(64)
        self.both, self.down = nn.LinearNF4(64, 256), nn.LinearNF4(128, 64, bias=False)

    def forward(self, x):
        return self.last(self.down(kernelwright.swiglu(self.both(self.norm(x)))), x)

torch.manual_seed(int(sys.argv[2]))
model, x = Model().to(sys.argv[3]), (torch.arange(256) % 64).float().view(4, 64).to(sys.argv[3]) / 8
with torch.no_grad():
    for result in model(x):
        print(*result.flatten().tolist(), sep="\\n")
    program = torch.export.export(model, (x,))
settings = {"aot_inductor.compile_wrapper_opt_level": "O0", "aot_inductor.precompile_headers": False}
torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[1], inductor_configs=settings)
"""

RUN = """
import ctypes, sys
import torch

library = ctypes.CDLL(sys.argv[2])
library.kw_last_error.restype = ctypes.c_char_p
for _ in range(2):  # the second changes nothing
    assert library.kw_torch_register() == 0, library.kw_last_error()
x = (torch.arange(256) % 64).float().view(4, 64).to(sys.argv[3]) / 8
for result in torch._inductor.aoti_load_package(sys.argv[1])(x):
    print(*result.flatten().tolist(), sep="\\n")
strided = x.t().contiguous().t()  # rows that must be copied are Python's
try:
    torch.ops.kernelwright.rms_norm(strided)
except RuntimeError as error:
    assert "do not follow each other" in str(error), error
else:
    raise AssertionError("not refused")
assert "kernelwright" not in sys.modules

import kernelwright

kernelwright.ops.register()  # takes on what is there

torch.testing.assert_close(torch.ops.kernelwright.rms_norm(strided), torch.nn.functional.rms_norm(x, (64,), eps=1e-6))
y = x.clone().requires_grad_()
kernelwright.rms_norm(y).sum().backward()
assert y.grad.shape == x.shape
assert library.kw_torch_register() == 0
"""


def done(*command: str | Path, **environment: str) -> str:
    result = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{command[0]}\n{result.stdout[-2000:]}\n{result.stderr[-8000:]}"
    return result.stdout


def floats(text: str) -> object:
    return torch.tensor([float(line) for line in text.split()])


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object, str]:
    """The package, what its model gives here, and where it runs."""
    if shutil.which("g++") is None:
        pytest.skip("AOTInductor needs a C++ compiler, g++")
    loaded = _library.load()
    loaded.functions["kw_torch_implement"](b"no such operator", b"()")
    if b"a newer torch has" in (words := loaded.functions["kw_last_error"]()):
        pytest.skip(words.decode())
    folder = tmp_path_factory.mktemp("aoti")
    path = folder / "model.pt2"
    command = sys.executable, "-W", "ignore", "-c", MAKE, path, "3", request.param
    return path, floats(done(*command, TORCHINDUCTOR_CACHE_DIR=str(folder / "cache"))), request.param


def test_by_a_process_that_never_imported_the_package(package):
    path, expected, device = package
    command = sys.executable, "-X", "faulthandler", "-c", RUN, path, _library.load().path, device
    found = done(*command, TORCH_DEVICE_BACKEND_AUTOLOAD="0")  # else torch itself imports what has such an entry point
    torch.testing.assert_close(floats(found), expected)


def test_by_a_program_without_python(package, tmp_path):
    path, expected, device = package
    theirs = Path(torch.__file__).parent
    library = Path(_library.load().path).parent
    includes = next(Path(entry) / "include" for entry in kernelwright.__path__ if Path(entry, "include").is_dir())
    if not (theirs / "include/torch/csrc/inductor/aoti_package/model_package_loader.h").is_file():
        pytest.skip("this torch has no headers of AOTInductor")
    page = (ROOT / "docs/c-api.md").read_text(encoding="utf-8")
    flags = re.findall(r"-std=\S+|-Wl\S+|-l\S+", page.partition("## AOTInductor")[2].partition("\n## ")[0])
    program = tmp_path / "run_package"
    done(
        "g++", "-O0", ROOT / "examples/aoti/run_package.cpp", "-o", program, f"-I{includes}", f"-I{theirs}/include",
        f"-L{library}", f"-L{theirs}/lib", f"-Wl,-rpath,{library}:{theirs}/lib", *flags,
    )  # fmt: skip
    torch.testing.assert_close(floats(done(program, path, "4", "64", device)), expected)
    refused = subprocess.run(
        [program, tmp_path / "none.pt2", "4", "64", device], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert refused.stderr
