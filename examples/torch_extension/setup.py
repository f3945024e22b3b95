# SPDX-License-Identifier: MIT
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    packages=["scaled"],
    ext_modules=[CUDAExtension("scaled._C", ["csrc/scaled.cu"], extra_compile_args={"cxx": ["-g0"], "nvcc": ["-O3"]})],
    cmdclass={"build_ext": BuildExtension},
)
