# SPDX-License-Identifier: MIT
"""Builds inside a conda environment and a Nix shell of this machine's real nvcc and GCC: taken, repeated, never mixed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import standin_support as standin

from kernelwright_toolchain.exact import wheel as wheels

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def conda(tmp_path_factory):
    """The environment, its variables, and a tree whose reference toolkit it holds."""
    made, variables = standin.conda(tmp_path_factory.mktemp("conda") / "env")
    return made, variables, standin.tree(tmp_path_factory.mktemp("tree"), made)


@pytest.fixture(scope="module")
def nix(tmp_path_factory):
    made, variables = standin.nix(tmp_path_factory.mktemp("nix") / "store")
    return made, variables, standin.tree(tmp_path_factory.mktemp("tree"), made)


@pytest.mark.long
def test_three_builds_inside_conda_give_the_same_bytes(conda):
    made, variables, tree = conda
    done = made.run(tree, "repro", "--quick", "-j", "2", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    names = set(re.findall(r"(kernelwright-\S+)\.whl", done.stderr))
    assert len(names) == 1
    assert re.search(r"\+[\w.]*conda-py3-none-manylinux", names.pop())
    assert "the same bytes" in done.stdout


@pytest.mark.long
def test_nox_builds_with_its_compilers_and_no_others(conda):
    made, variables, tree = conda
    nvcc, gcc, row = standin.compilers()
    foreign = {"CUDA_HOME": "/usr/local/cuda"}  # as many a person's shell has it
    done = made.run(tree, "build", "--ops", "swiglu", "--archs", "80", **variables, **foreign)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("SUCCESS")
    assert f"device compiler: nvcc {nvcc.version} ({made.bin}/nvcc)" in done.stderr
    assert done.stderr.count("CUDA_HOME=/usr/local/cuda is unset for this build") == 1
    (path,) = (tree / "dist").glob("*.whl")
    recipe = wheels.read(path).recipe
    assert (recipe["build"]["provider"], recipe["build"]["toolkit"]) == ("conda", row)
    assert recipe["device_compiler"]["version"] == str(nvcc.version)
    assert recipe["host_compiler"]["front"].startswith(f"GNU {gcc.version}")
    assert {path.name for path in (tree / ".kw").iterdir()}.isdisjoint({"tools"})  # nothing of pip's was fetched


@pytest.mark.long
@pytest.mark.parametrize("name", ["conda", "nix"])
def test_the_environments_wheel_passes_its_tests_with_torch(request, name, tmp_path):
    made, variables, _ = request.getfixturevalue(name)
    tree = standin.with_tests(standin.tree(tmp_path / "tree", made))
    done = made.run(tree, "tests", *standin.TESTS, **variables)
    standin.passed(done)
    assert re.search(rf"tests of kernelwright-\S+{name}-py3-none-", done.stderr)


@pytest.mark.long
@pytest.mark.torch
def test_with_its_category_for_tests_the_environments_own_torch_is_taken(conda, tmp_path):
    """torch lies in the environment's modules, as pip puts it there; it is not fetched again."""
    made, variables, _ = conda
    tree = standin.with_tests(standin.tree(tmp_path / "tree", made))
    (modules,) = (made.place / "lib").glob("python*/site-packages")
    link = modules / "torch.pth"
    link.write_text(f"{Path(importlib.util.find_spec('torch').origin).parents[1]}\n")
    done = made.run(tree, "tests", *standin.TESTS, **variables)
    link.unlink()
    standin.passed(done, rf"\S+ of {made.bin}/python3")


def test_outside_of_it_a_build_says_how_to_get_in(conda):
    made, _, tree = conda
    done = made.run(tree, "repro", "--quick", "--provider", "conda")
    assert done.returncode != 0
    assert "conda activate kernelwright" in done.stderr


@pytest.mark.parametrize("name", ["conda", "nix"])
@pytest.mark.parametrize("what", ["another GCC", "another CUDA", "another release"])
def test_a_mix_is_refused_before_anything_is_compiled(request, name, what):
    made, variables, tree = request.getfixturevalue(name)
    nvcc, gcc, own = standin.compilers()
    mixed = {"another GCC": {"NVCC_CCBIN": str(gcc.path)}, "another CUDA": {"CUDACXX": str(nvcc.path)}}
    other = next(row for row in standin.TABLE.toolkits if row != own)
    asked = ["--toolkit", other] if what == "another release" else []
    done = made.run(tree, "build", "--ops", "swiglu", *asked, **{**variables, **mixed.get(what, {})})
    assert done.returncode != 0
    assert "--provider" in done.stderr
    words = {"another GCC": f"NVCC_CCBIN={gcc.path}", "another CUDA": "names a CUDA outside", "another release": other}
    assert words[what] in done.stderr
    assert "Building CXX" not in done.stderr
