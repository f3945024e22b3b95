# SPDX-License-Identifier: MIT
"""bitsandbytes.cuda_specs: what torch says of the GPU. Nothing here is chosen by it."""

from __future__ import annotations

import dataclasses
import functools

import torch

__all__ = ["CUDASpecs", "get_compute_capabilities", "get_cuda_specs", "get_cuda_version_tuple", "get_rocm_gpu_arch"]


@dataclasses.dataclass(frozen=True)
class CUDASpecs:
    highest_compute_capability: tuple[int, int]
    cuda_version_string: str
    cuda_version_tuple: tuple[int, int]


def get_compute_capabilities() -> list[tuple[int, int]]:
    count = torch.cuda.device_count()
    return sorted(torch.cuda.get_device_capability(torch.cuda.device(index)) for index in range(count))


@functools.cache
def get_cuda_version_tuple() -> tuple[int, int] | None:
    """Of the CUDA release that torch was built with."""
    release = str(torch.version.cuda or "").split(".")
    return (int(release[0]), int(release[1])) if len(release) > 1 else None


def get_cuda_specs() -> CUDASpecs | None:
    version = get_cuda_version_tuple()
    if version is None or not torch.cuda.is_available():
        return None
    return CUDASpecs(get_compute_capabilities()[-1], f"{version[0]}{version[1]}", version)


def get_rocm_gpu_arch() -> str:
    return "unknown"
