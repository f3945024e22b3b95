# SPDX-License-Identifier: MIT
"""Compiles device sources to images: two drivers, a cache, a scheduler, and the rules that keep images exact."""

from kernelwright_toolchain.device.build import Built, build_images
from kernelwright_toolchain.device.compiler import Compiled, DeviceCompiler, Job
from kernelwright_toolchain.device.image import Image
from kernelwright_toolchain.device.nvcc import Nvcc
from kernelwright_toolchain.device.nvrtc import Nvrtc

__all__ = ["Built", "Compiled", "DeviceCompiler", "Image", "Job", "Nvcc", "Nvrtc", "build_images"]
