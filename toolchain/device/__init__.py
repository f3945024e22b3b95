# SPDX-License-Identifier: MIT
"""Compiles device sources to images: two drivers, a cache, a scheduler, and the rules that keep images exact."""

from toolchain.device.build import Built, build_images
from toolchain.device.compiler import Compiled, DeviceCompiler, Job
from toolchain.device.image import Image
from toolchain.device.nvcc import Nvcc
from toolchain.device.nvrtc import Nvrtc

__all__ = ["Built", "Compiled", "DeviceCompiler", "Image", "Job", "Nvcc", "Nvrtc", "build_images"]
