# SPDX-License-Identifier: MIT
"""What `kwt init` finds in a project's own files, and what it writes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright_toolchain.__main__ import VERBS, main
from kernelwright_toolchain.classic import found, toolkit
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.settings import read
from kernelwright_toolchain.targets import load

TABLE = load()
KIT = toolkit.row_of(None, TABLE)
CMAKE = """cmake_minimum_required(VERSION 3.22)
set(GPU_BACKEND "cpu" CACHE STRING "which (cpu, cuda, hip)")
set_property(CACHE GPU_BACKEND PROPERTY STRINGS cpu cuda hip)
set(COMPUTE_CAPABILITY "${ALL}" CACHE STRING "Compute Capabilities Targeted")
set(CMAKE_CUDA_ARCHITECTURES 75 CACHE STRING "")
# set(OLD_ARCHS 50 CACHE STRING "")  target_link_libraries(a CUDA::cusparse)
option(WITH_CUDA "kernels" OFF)
option(WITH_TESTS "tests" OFF)
target_link_libraries(a PRIVATE CUDA::cudart CUDA::cublas CUDA::cublasLt CUDA::curand_static)
"""
SETUP = """import os
import packaging.version
from wheel.bdist_wheel import bdist_wheel
from setuptools import setup
import torch
from torch.utils.cpp_extension import CUDAExtension
import versions
try:
    import ninja
except ImportError:
    pass
flags = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90", "code=sm_35"]
setup(ext_modules=[CUDAExtension("a", ["a.cu"], libraries=["cusolver"], extra_link_args=["-lnvrtc"])])
"""


def tree(place: Path, **files: str) -> Path:
    for name, text in files.items():
        (place / name.replace("__", ".")).write_text(text)
    return place


def test_of_cmake_its_codes_its_own_words_for_them_and_its_libraries(tmp_path):
    tree(tmp_path, CMakeLists__txt=CMAKE, pyproject__toml='[build-system]\nbuild-backend = "scikit_build_core.build"\n')
    assert found.look(tmp_path, TABLE, KIT) == found.Found(
        backend="scikit_build_core.build",
        archs="75+ptx" if "sm_75" in TABLE.codes and TABLE.codes["sm_75"].toolkits.knows(KIT.release) else None,
        libraries=("cublas", "curand"),
        defines={"COMPUTE_CAPABILITY": "{archs}", "GPU_BACKEND": "cuda", "WITH_CUDA": "ON"},
    )


def test_of_setup_py_its_codes_what_it_imports_and_what_it_links(tmp_path):
    tree(tmp_path, setup__py=SETUP, versions__py="")
    assert found.look(tmp_path, TABLE, KIT) == found.Found(
        backend="setuptools.build_meta", archs="80;90", torch=True, libraries=("cusolver", "nvrtc"),
        requires=("packaging", "wheel"),
    )  # fmt: skip


def test_what_build_system_says_is_not_asked_of_setup_py(tmp_path):
    tree(tmp_path, setup__py=SETUP, pyproject__toml='[build-system]\nrequires = ["wheel"]\n')
    assert found.look(tmp_path, TABLE, KIT).requires == ()


def test_a_setup_py_that_is_no_python_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"setup\.py cannot be read"):
        found.look(tree(tmp_path, setup__py="print 'x'\n"), TABLE, KIT)


def test_all_of_it_is_written_and_read_again(tmp_path, capsys):
    tree(tmp_path, setup__py=SETUP, versions__py="", CMakeLists__txt=CMAKE)
    config = tmp_path / "kernelwright.toml"
    assert main(["init", "--project", str(tmp_path), "--config", str(config)], VERBS) == 0
    assert f"kwt build --config {config}" in capsys.readouterr().out
    settings = read(tmp_path, config)
    assert settings.defines == {"COMPUTE_CAPABILITY": "{archs}", "GPU_BACKEND": "cuda", "WITH_CUDA": "ON"}
    assert settings.libraries == ("cublas", "curand", "cusolver", "nvrtc")
    assert settings.requires == ("packaging", "wheel")
    assert settings.locks == tmp_path
    assert not (tmp_path / "pyproject.toml").exists()
    assert main(["init", "--project", str(tmp_path), "--config", str(config)], VERBS) == RequestError.exit_code
    assert "already; nothing was written" in capsys.readouterr().err
