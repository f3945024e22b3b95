# SPDX-License-Identifier: MIT
"""Device-only packages: the tables, what is made of them, and the example's wheel on this machine."""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain import backend, version
from kernelwright_toolchain.distribution import metadata
from kernelwright_toolchain.errors import CompileError, DeterminismError, GateError, KwError, RequestError, TableError
from kernelwright_toolchain.packages import build, c, python, stage, table
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.settings import read
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.verbs import new
from tests.tree import ROOT, serve
from tests.tree import Project as Tree

EXAMPLE = ROOT / "examples" / "device_only"
DRIVER = ROOT / "benchmarks" / "standin_driver.c"
TABLE = load()
AXPY = {
    "source": "a.cu", "entry": "a_{dtype}", "schema": "(Tensor x, float a) -> Tensor", "dtypes": ["float32"],
    "returns": {"out": "x.new_empty(x.shape)"}, "args": ["x", "a", "out", "x.numel()"], "grid": "x.numel()", "block": "1",
}  # fmt: skip


def test_the_toolchain_names_itself_as_its_metadata_does():
    assert metadata.project(ROOT / "toolchain")["version"] == version.VERSION


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "(Tensor x) -> Tensor, Tensor"}, "gives 2 results"),
        ({"schema": "(float a) -> Tensor"}, "first argument must be a Tensor"),
        ({"schema": "(Tensor x, complex a) -> Tensor"}, "'complex a' is not a Tensor"),
        ({"dtypes": ["float31"]}, "'float31' is none of"),
        ({"dtypes": ["float32", "int8"], "entry": "a"}, r"\{dtype\} in entry"),
        ({"grid": "1, 2, 3, 4"}, "has 4 dimensions"),
        ({"grid": "z.numel()"}, "z is no tensor of it; x, out are"),
        ({"grid": "x.size()"}, "size and stride take an index"),
        ({"gird": "1"}, "has 'gird'; it may have"),
        ({"args": "x"}, "is not a list of strings"),
        ({"source": 1}, "source = 1 is not a string"),
    ],
)
def test_a_wrong_table_is_refused_by_its_key(change, words):
    with pytest.raises(TableError, match=rf"\[kernel\.a\].*{words}"):
        table.read("a", {**AXPY, **change})


def test_expressions_are_pasted_as_they_are_and_questions_become_parameters():
    kernel = table.read("a", {**AXPY, "grid": "(x.size(-1) + 7) / 8, x.stride(0)", "shared": "x.size(-1) * 4"})
    assert kernel.asked == (("x", "numel", ""), ("x", "size", "-1"), ("x", "stride", "0"))
    assert kernel.grid == ("(x.size(-1) + 7) / 8", "x.stride(0)")
    assert c.parameters(kernel) == [
        "int dtype", "const void *x", "double a", "void *out", "int64_t x_numel", "int64_t x_size_m1",
        "int64_t x_stride_0", "int device", "void *stream",
    ]  # fmt: skip
    assert table.in_c("(x.size(-1) + 7) / 8") == "(x_size_m1 + 7) / 8"
    text = python.operators("p", [kernel])
    compile(text, "p", "exec")
    assert "x.size(-1), x.stride(0)" in text
    assert "x = x.contiguous()" not in text  # its strides are asked for


def test_a_tensor_that_is_written_is_not_copied():
    raw = {**AXPY, "schema": "(Tensor(a!) x, float a) -> ()", "returns": {}, "args": ["x"]}
    kernel = table.read("a", raw)
    assert kernel.arguments[0].written
    text = python.operators("p", [kernel])
    assert "raise _not_in_a_row('a', 'x', x)" in text
    assert "void *x" in c.parameters(kernel)
    assert "_cpu_a" not in text


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The example in a folder of its own, with this tree's tools."""
    to = tmp_path / "somewhere"
    shutil.copytree(EXAMPLE, to, ignore=shutil.ignore_patterns(".kw", "dist"))
    (to / ".kw").mkdir()
    for name in ("tools", "cache"):
        if (ROOT / ".kw" / name).is_dir():
            (to / ".kw" / name).symlink_to(ROOT / ".kw" / name)
    serve(monkeypatch, Tree(to))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    return to


def made(place: Path, **asked: str) -> build.Made:
    return build.build(read(place), TABLE, place / "dist", asked, 2)


@pytest.mark.slow
@pytest.mark.long
def test_the_example_gives_the_same_small_wheel_from_two_places_and_from_its_sdist(place, tmp_path, monkeypatch):
    first = made(place)
    assert first.wheel.stat().st_size < 200_000
    other = tmp_path / "another place"
    shutil.copytree(place, other, ignore=shutil.ignore_patterns("dist", "stage", "package"), symlinks=True)
    with serving(Project(other)):
        assert made(other).sha256 == first.sha256
    monkeypatch.chdir(place)
    sdist = place / backend.build_sdist(str(place))
    with tarfile.open(sdist) as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path / "sdist", **safe)  # noqa: S202 - our own
    third = next((tmp_path / "sdist").iterdir())
    (third / ".kw").mkdir()
    (third / ".kw" / "tools").symlink_to(ROOT / ".kw" / "tools")
    with serving(Project(third)):
        assert made(third).sha256 == first.sha256
    with zipfile.ZipFile(first.wheel) as archive:
        told = json.loads(archive.read("two_kernels-0.1.0.dist-info/statement.json"))["predicate"]
    assert told["toolchain"] == version.VERSION
    assert set(told["inputs"]) == {"pyproject.toml", "kernels/axpy.cu", "kernels/row_sum.cu"}


@pytest.mark.slow
@pytest.mark.long
def test_another_set_of_codes_is_in_the_name(place):
    found = made(place, archs="90")
    assert found.wheel.name.startswith("two_kernels-0.1.0+cu122.sm90-py3-none-")
    for target in ("linux-x86_64", "linux-aarch64"):
        assert made(place, target=target).wheel.name.endswith(TABLE.targets[target].platform_tag + ".whl")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (("kernels/axpy.cu", "axpy_float64(", "axpy_double("), GateError, r"has no kernel axpy_float64 for sm_\d+; it has"),
        (("kernels/axpy.cu", "template <typename T>", "static __device__ int a;\ntemplate <typename T>"), DeterminismError,
         r"^kernels/axpy\.cu:3: `static` at file scope"),
        (("kernels/row_sum.cu", "__shared__ T part[8];", "__shared__ T part[8]"), CompileError, r"kernels/row_sum\.cu"),
        (("pyproject.toml", '"out.numel()"', '"out.numel("'), CompileError, "C expressions of the tables"),
        (("pyproject.toml", 'source = "kernels/axpy.cu"', 'source = "axpy.cu"'), RequestError, "no such .cu file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_the_projects_own_words(place, edit, error, words):
    path = place / edit[0]
    text = path.read_text()
    assert edit[1] in text
    path.write_text(text.replace(edit[1], edit[2], 1))
    with pytest.raises(error, match=words):
        made(place)


@pytest.mark.slow
def test_its_operators_are_right_on_the_cpu_and_refuse_in_words(place, tmp_path):
    pytest.importorskip("torch")
    with zipfile.ZipFile(made(place, target=f"linux-{os.uname().machine}").wheel) as archive:
        archive.extractall(tmp_path / "in")  # noqa: S202 - made just now
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "in"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-m", "two_kernels"], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("SUCCESS\n"), done.stdout + done.stderr
    act = (
        "import torch, two_kernels as k\n"
        "x = torch.ones(3)\n"
        "for bad in ((x, x[:2], 1.0), (x, x.double(), 1.0), (x.half(), x.half(), 1.0)):\n"
        "    try: print('NOT REFUSED', k.axpy(*bad))\n"
        "    except (ValueError, TypeError) as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", act], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "axpy: expected x.shape == y.shape",
        "axpy: y has dtype torch.float64, expected torch.float32",
        "axpy: dtype torch.float16 is not one of torch.float32, torch.float64",
    ]


@pytest.mark.slow
def test_the_driver_is_given_every_argument_as_python_packed_it(place, tmp_path):
    """By a driver without a GPU, which computes axpy from the arguments of its launch: one number wrong is a wrong sum."""
    pytest.importorskip("torch")
    if shutil.which("cc") is None:
        pytest.skip("no cc on PATH")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", DRIVER], check=True)
    with zipfile.ZipFile(made(place, target=f"linux-{os.uname().machine}").wheel) as archive:
        archive.extractall(tmp_path / "in")  # noqa: S202 - made just now
    act = (
        "import ctypes, sys, torch\n"
        "from two_kernels import _operators as made\n"
        "driver = ctypes.CDLL('libcuda.so.1')\n"
        "computes, calls = (ctypes.c_int.in_dll(driver, f'standin_{name}') for name in ('computes', 'calls'))\n"
        "computes.value = 1\n"
        "for number, dtype in enumerate((torch.float32, torch.float64)):\n"
        "    x, y = torch.rand(2, 1000, dtype=dtype)\n"
        "    out = torch.zeros_like(x)\n"
        "    words = number, x.data_ptr(), y.data_ptr(), 0.1, out.data_ptr(), x.numel(), 0, 0\n"
        "    for turn in range(2):\n"
        "        calls.value = 0\n"
        "        assert made._call_axpy(made._pack_axpy(*words)) == 0, made._error()\n"
        "    print((out - (0.1 * x + y)).abs().max().item() < 1e-6, calls.value)\n"
        "print(made._call_axpy(made._pack_axpy(7, *words[1:])), made._error())\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "in"), "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", act], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["True 2", "True 2", "-1 axpy: dtype 7: 0 to 1 are known"], done.stderr


@pytest.mark.slow
def test_kwt_new_writes_a_package_that_builds(tmp_path, monkeypatch):
    given = argparse.Namespace(name="my-axpy", place=tmp_path)
    assert new.run(given) == 0
    with pytest.raises(RequestError, match="is there already"):
        new.run(copy.copy(given))
    tree = tmp_path / "my-axpy"
    (tree / ".kw").mkdir()
    (tree / ".kw" / "tools").symlink_to(ROOT / ".kw" / "tools")
    serve(monkeypatch, Tree(tree))
    found = made(tree, archs="90")
    with zipfile.ZipFile(found.wheel) as archive:
        assert "my_axpy/libmy_axpy.so" in archive.namelist()


def test_a_table_without_a_project_says_what_to_run(tmp_path):
    with pytest.raises(KwError, match="kwt init"):
        read(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\n[tool.kernelwright]\narch = "90"\n')
    with pytest.raises(TableError, match="has 'arch'; it may have archs"):
        read(tmp_path)


def test_headers_beside_a_source_are_sources_too(tmp_path):
    (tmp_path / "k").mkdir()
    for name in ("a.cu", "b.cuh", "c.txt"):
        (tmp_path / "k" / name).touch()
    kernel = table.read("a", {**AXPY, "source": "k/a.cu"})
    assert [path.as_posix() for path in stage.sources(tmp_path, [kernel])] == ["k/a.cu", "k/b.cuh"]
