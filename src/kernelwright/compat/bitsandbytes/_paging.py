# SPDX-License-Identifier: MIT
"""What bitsandbytes.functional has for paged tensors: here they are pinned memory of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from kernelwright.errors import InvalidArgument
from kernelwright.optim import _paging

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FIRST_CUDA_DEVICE",
    "CUBLAS_Context",
    "GlobalPageManager",
    "elementwise_func",
    "fill",
    "get_paged",
    "prefetch_tensor",
]

FIRST_CUDA_DEVICE = torch.device("cuda", index=0)


class _One:
    """A class of which the process has one object, from `get_instance()`."""

    _instance: ClassVar[Any] = None

    def __init__(self) -> None:
        raise RuntimeError(f"{type(self).__name__}: there is one for the process, from get_instance()")

    def initialize(self) -> None:
        raise NotImplementedError

    @classmethod
    def get_instance(cls) -> Any:
        if cls._instance is None:
            cls._instance = cls.__new__(cls)
            cls._instance.initialize()
        return cls._instance


class GlobalPageManager(_One):
    """The paged tensors of a process. Optimizers move their own; `prefetch_all` has nothing to do."""

    paged_tensors: list[Tensor]

    def initialize(self) -> None:
        self.paged_tensors = []

    def prefetch_all(self, to_cpu: bool = False) -> None:
        for tensor in reversed(self.paged_tensors):
            prefetch_tensor(tensor, to_cpu)


class CUBLAS_Context(_One):  # noqa: N801 - bitsandbytes' name
    """A handle that nothing here needs: `get_context` gives None."""

    def initialize(self) -> None:
        self.context: dict[int, None] = {}

    def get_context(self, device: Any) -> None:
        return self.context.setdefault(torch.device(device).index or 0)


def get_paged(*shape: int, dtype: torch.dtype = torch.float32, device: Any = FIRST_CUDA_DEVICE) -> Tensor:
    """Zeros in the host's memory, pinned where there is a GPU."""
    return _paging.zeros(shape, dtype, torch.device(device), pin=torch.cuda.is_available())


def prefetch_tensor(A: Tensor, to_cpu: bool = False) -> None:
    """Checks that the tensor is paged; it comes to the GPU when an optimizer's step asks for it."""
    del to_cpu
    if not _paging.is_paged(A):
        raise InvalidArgument("prefetch_tensor: A is not paged; get_paged makes such tensors")


def elementwise_func(func_name: str, A: Tensor, B: Tensor | None, value: Any, prefetch: bool = True) -> None:
    """In place: "fill" with a value, "_mul" by B, "arange"."""
    del prefetch
    if func_name == "fill":
        A.fill_(value)
    elif func_name == "_mul" and B is not None:
        A.mul_(B)
    elif func_name == "arange":
        A.copy_(torch.arange(A.numel(), dtype=A.dtype, device=A.device).view(A.shape))
    else:
        raise NotImplementedError(f"elementwise_func: {func_name!r} is none of fill, _mul, arange")


def fill(A: Tensor, value: Any, device: Any = None, prefetch: bool = True) -> None:
    del device
    elementwise_func("fill", A, None, value, prefetch)
