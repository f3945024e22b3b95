# SPDX-License-Identifier: MIT
"""CONTRIBUTING's model of a new operator: the folder toy beside this file is a family, and all that one needs.

It is laid over a copy of this tree and built alone; then the tests that all operators have find it by themselves.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kernelwright_toolchain import start
from kernelwright_toolchain.building.package import _environment
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.targets import load
from tests.emulator.build import NoCompiler, compiler
from tests.tree import ROOT

TOY = Path(__file__).parent / "toy"
NOT_COPIED = shutil.ignore_patterns(".*", "dist", "build", "__pycache__")
BUILD = """
import sys
sys.path.insert(0, "toolchain")
from kernelwright_toolchain import pep517
pep517.build_wheel(sys.argv[1], {"provider": "pip", "archs": "90a", "ops": "leaky_relu"})
"""
# What an operator may take that runs forward on the CPU and on GPUs.
MOST_FILES, MOST_LINES = 5, 180


def test_five_files_and_no_other_edited():
    files = [path for path in TOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) <= MOST_FILES
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= MOST_LINES
    assert not [path for path in files if (ROOT / path.relative_to(TOY)).exists()], "a file of the tree is replaced"


class Tree:
    """A copy of this tree with the toy in it, and the package that was built of that."""

    def __init__(self, place: Path) -> None:
        self.root, self.site = place / "tree", place / "site"
        self.environment = {**os.environ, "KERNELWRIGHT_CACHE": str(place / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        shutil.copytree(ROOT, self.root, ignore=NOT_COPIED)
        shutil.copytree(TOY, self.root, dirs_exist_ok=True)
        for name in (".kw", "dist"):
            (self.root / name).mkdir()
        for name in ("tools", "cache"):
            if (ROOT / ".kw" / name).is_dir():
                (self.root / ".kw" / name).symlink_to(ROOT / ".kw" / name)

    def run(self, *words: Any, **environment: str) -> str:
        command = [sys.executable, *map(str, words)]
        done = subprocess.run(
            command, cwd=self.root, env={**self.environment, **environment}, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def build(self) -> None:
        """As `./kw build -- --archs 90a --ops leaky_relu` does."""
        environment = _environment(host.provision(load()), 2)
        environment["PYTHONPATH"] = environment.pop(start.MODULES)
        self.run("-c", BUILD, self.root / "dist", **environment)
        (wheel,) = (self.root / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    made = Tree(tmp_path_factory.mktemp("newcomer"))
    made.build()
    return made


@pytest.mark.slow
@pytest.mark.torch
def test_the_tests_of_all_operators_find_it(tree: Tree):
    """Records, calls by both ways, numbers against float64 in every layout, what torch's own checks see."""
    files = [f"tests/python/test_{name}.py" for name in ("records", "calls", "numbers", "operators")]
    path = os.pathsep.join([str(tree.site), str(tree.root)])
    said = tree.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "leaky_relu", *files, PYTHONPATH=path)
    passed = int(said.rpartition(" passed")[0].split()[-1])
    assert passed > 80, said[-2000:]
    assert "failed" not in said


@pytest.mark.slow
@pytest.mark.torch
def test_its_kernels_run_on_an_emulated_gpu(tree: Tree, tmp_path):
    try:
        compiler()
    except NoCompiler as error:
        pytest.skip(str(error))
    path = os.pathsep.join([str(tree.site), str(tree.root), str(tree.root / "toolchain")])
    tree.run("-m", "tests.emulator.build", tmp_path, "sm_90a", PYTHONPATH=path)
    asked = ("9.0/132/50", "--ops", "leaky_relu", "--all-of", "sm_90a")
    said = tree.run("-m", "tests.emulator.program", tmp_path, *asked, PYTHONPATH=path, OMP_NUM_THREADS="1")
    assert '"failures": [], "left_out": []' in said


WITHOUT_CPU = """
namespace kw {
static Module leaky_relu_module{"leaky_relu"};
static Elementwise leaky_relu{"kw_leaky_relu", 1, {"x"}, {"y"}, nullptr, leaky_relu_module, {{"a"}, {"b"}, {"c"}}};
}  // namespace kw
"""
CALLS = """
import warnings, torch, kernelwright
from kernelwright import _library, errors, ops
from kernelwright.doctor.operators._all import runs
from kernelwright.doctor.operators._run import on_cpu
native = _library.load()
ops.register()
assert hasattr(torch.ops._kernelwright, "leaky_relu"), "the kernels are those in C, which leave the CPU to Python"
x = torch.randn(3, 33, dtype=torch.bfloat16)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    found = [kernelwright.leaky_relu(x, 0.3), torch.ops.kernelwright.leaky_relu(x, 0.3), kernelwright.leaky_relu(x, 0.3)]
for y in found:
    assert torch.equal(y, torch.where(x >= 0, x.float(), 0.3 * x.float()).bfloat16())
print([str(each.message) for each in said])
try:
    kernelwright.leaky_relu(x.int())
except errors.InvalidDtype as error:
    print(error)
try:
    native.call("kw_leaky_relu", -1, None, x.data_ptr(), 33, x.data_ptr(), 33, 3, 33, 2, 0.3)
except errors.Unsupported as error:
    print(error)
print(*(words for name, _, words in runs({"operators": on_cpu()}) if name == "leaky_relu"))
"""


@pytest.mark.slow
@pytest.mark.torch
def test_without_a_cpu_implementation_the_reference_runs_and_says_so_once(tmp_path):
    tree = Tree(tmp_path)
    (tree.root / "csrc/ops/toy/cpu/leaky_relu.cpp").unlink()
    host_file, record = (
        tree.root / "csrc/ops/toy/host/leaky_relu.cpp",
        tree.root / "src/kernelwright/ops/toy/leaky_relu.py",
    )
    host_file.write_text(re.sub(r"\nKW_ELEMENTWISE\(.*\n", WITHOUT_CPU, host_file.read_text()))
    record.write_text(record.read_text().replace('doc="leaky ReLU",', 'doc="leaky ReLU",\n    no_cpu="a toy",'))
    tree.build()
    words = "leaky_relu has no CPU implementation (a toy): plain torch computes it"
    assert tree.run("-c", CALLS, PYTHONPATH=str(tree.site)).splitlines() == [
        f"['{words}']",
        "leaky_relu: x has dtype torch.int32, but must have torch.float32 or torch.float16 or torch.bfloat16 or torch.float64",
        "kw_leaky_relu: it has no CPU implementation; give it the number of a GPU",
        words.removeprefix("leaky_relu "),
    ]


def worked() -> float:
    """Seconds of processors that children took: the clock's depend on what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_what_is_generated_takes_seconds(tree: Tree):
    """The row of docs/use.md, and the kernels' registers, of which the build has left all that is asked."""
    tree.run("-m", "toolchain", "render")
    use = (tree.root / "docs/use.md").read_text(encoding="utf-8")
    assert "| `kernelwright.leaky_relu` | leaky ReLU | [`kw_leaky_relu`](../csrc/ops/toy/api/leaky_relu.h) |" in use
    before = worked()
    tree.run("-m", "toolchain", "sass", "--write")
    assert worked() - before < 30, "it compiled what the build did not"
    recorded = (tree.root / "benchmarks/sass.toml").read_text(encoding="utf-8")
    assert "[leaky_relu]\nleaky_relu_bfloat16 = [" in recorded
