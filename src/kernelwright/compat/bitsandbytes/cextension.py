# SPDX-License-Identifier: MIT
"""bitsandbytes.cextension: the native library, which is kernelwright's, by bitsandbytes' names of its functions."""

from __future__ import annotations

import torch

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.bitsandbytes._native import Native
from kernelwright.compat.bitsandbytes.cuda_specs import get_rocm_gpu_arch

__all__ = ["BNB_BACKEND", "HIP_ENVIRONMENT", "ROCM_GPU_ARCH", "BNBNativeLibrary", "get_native_library", "lib"]

BNBNativeLibrary = CudaBNBNativeLibrary = Native
HIP_ENVIRONMENT = False
ROCM_GPU_ARCH = get_rocm_gpu_arch()
BNB_BACKEND = "CUDA" if torch.cuda.is_available() else "CPU"
lib = Native()


def get_native_library() -> Native:
    return lib


_FILES = "one library serves every CUDA release, so none is chosen by its version"
_WHY = {
    "get_cuda_bnb_library_path": _FILES,
    "get_available_cuda_binary_versions": _FILES,
    "parse_cuda_version": _FILES,
    "ErrorHandlerMockBNBNativeLibrary": "a library that cannot be loaded is an error of its own, with its cause",
    "XpuBNBNativeLibrary": "kernelwright has no kernels for Intel's GPUs (XPU)",
    "get_xpu_bnb_library_path": "kernelwright has no kernels for Intel's GPUs (XPU)",
}
__getattr__ = refuse_others(__name__, __all__, "What is not there, and why: docs/bitsandbytes.md", _WHY)
