# SPDX-License-Identifier: MIT
"""What `kwt init` finds in a project's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright_toolchain.classic import found, toolkit
from kernelwright_toolchain.errors import RequestError
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


def test_each_name_that_is_linked_belongs_to_one_library():
    names = [name for row in TABLE.libraries.values() for name in row.links]
    assert len(names) == len(set(names))
    cmake = "target_link_libraries(a CUDA::nppig_static CUDA::cublasLt CUDA::nvJitLink CUDA::cudart)"
    assert found.libraries(cmake, 'libraries=["nvjpeg", "cuda"], extra_link_args=["-lcufft"]', TABLE) == (
        "cublas", "cufft", "npp", "nvjitlink", "nvjpeg",
    )  # fmt: skip
