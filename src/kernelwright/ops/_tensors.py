# SPDX-License-Identifier: MIT
"""What operators on rows share: where a tensor's rows lie, where a call runs, how element types are numbered."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument, InvalidDtype, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

    from kernelwright._library import Library


def dtype_codes(library: Library, names: Iterable[str]) -> dict[Any, int]:
    """torch's element types as the C library numbers them."""
    import torch

    return {getattr(torch, name): library.constants[f"KW_{name.upper()}"] for name in names}


def placement(library: Library, key: str) -> Callable[[Tensor], tuple[int, int]]:
    """A function of a tensor that gives the C library's `device` and `stream` for it."""
    import torch

    from kernelwright.ops import _private as private

    if key == "CPU":
        here = (library.constants["KW_CPU"], 0)
        threads = torch.get_num_threads

        def on_cpu(_: Tensor) -> tuple[int, int]:
            count = threads()
            if count != library.threads:
                library.use_threads(count)
            return here

        return on_cpu

    current = private.raw_stream()

    def on_cuda(tensor: Tensor) -> tuple[int, int]:
        ordinal = tensor.get_device()
        return ordinal, current(ordinal) if ordinal >= 0 else 0  # it may lie on the CPU beside others on a GPU

    return on_cuda


def unusual(tensor: Tensor) -> str | None:
    """What keeps a tensor from being one that kernels and their fakes take, in words."""
    import torch

    if tensor.is_nested:
        return "a nested tensor"
    if tensor.layout != torch.strided:
        return f"a tensor of layout {tensor.layout}"
    if tensor.is_quantized:
        return f"a quantized tensor ({tensor.dtype})"
    return None if tensor.device.type in ("cpu", "cuda", "meta") else f"on {tensor.device}"


def row_stride(tensor: Tensor) -> int | None:
    """Elements from one row (last dimension) to the next, where one number says it; None where a copy is needed."""
    shape, strides = tensor.shape, tensor.stride()
    if strides[-1] != 1 and shape[-1] != 1:
        return None
    step, expected = shape[-1], None
    for size, stride in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if size == 1:
            continue
        if expected is None:
            step = stride
        elif stride != expected:
            return None
        expected = stride * size
    return step


def settled(value: Tensor, dtype: Any) -> Tensor:
    """As a kernel returns it: of this type, with the strides of a new tensor.

    `contiguous()` alone keeps whatever strides dimensions of one element had, and compilers are told the new ones.
    """
    import torch

    return torch.empty(value.shape, dtype=dtype, device=value.device).copy_(value)


def without_autocast(device: Any) -> contextlib.AbstractContextManager[Any]:
    """torch's products compute in the type of what they are given, also where the caller wants autocast."""
    import torch

    # Of meta, where nothing is computed, torch would say that it has no autocast.
    return torch.autocast(device.type, enabled=False) if device.type in ("cpu", "cuda") else contextlib.nullcontext()


def rows(tensor: Tensor) -> tuple[Tensor, int]:
    """To read: the tensor, or a contiguous copy where its rows do not lie evenly, and the stride between rows."""
    if tensor.is_contiguous():
        return tensor, tensor.shape[-1]
    stride = row_stride(tensor)
    return (tensor.contiguous(), tensor.shape[-1]) if stride is None else (tensor, stride)


def writable_rows(tensor: Tensor) -> tuple[Tensor, int]:
    """To write: as `rows`, and a copy too where rows overlap."""
    if tensor.is_contiguous():
        return tensor, tensor.shape[-1]
    stride = row_stride(tensor)
    if stride is None or stride < tensor.shape[-1]:
        return tensor.contiguous(), tensor.shape[-1]
    return tensor, stride


def span(tensor: Tensor) -> tuple[int, int]:
    """First address of a non-empty tensor, and the one after its last."""
    first = tensor.data_ptr()
    if tensor.is_contiguous():
        return first, first + tensor.nbytes
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * tensor.element_size()


def reaches(tensor: Tensor, first: int, end: int) -> bool:
    """Whether a tensor may share memory with what lies there; errs on the side of yes for interleaved views of one."""
    start, stop = span(tensor)
    return start < end and first < stop


def require_dtype(op: str, name: str, tensor: Tensor, allowed: tuple[Any, ...]) -> None:
    if tensor.dtype not in allowed:
        raise InvalidDtype(
            f"{op}: {name} has dtype {tensor.dtype}, but must have {' or '.join(dict.fromkeys(map(str, allowed)))}"
        )


def require_like(op: str, name: str, tensor: Tensor, like: str, x: Tensor, shape: tuple[Any, ...]) -> None:
    """`tensor` has this shape and lies on the device of `x`, which the caller calls `like`."""
    if tensor.device != x.device:
        raise InvalidArgument(
            f"{op}: {name} is on {tensor.device}, but {like} is on {x.device}; move one of them (.to())"
        )
    if tensor.shape != shape:
        raise InvalidArgument(
            f"{op}: {name} has shape {tuple(tensor.shape)}, but must have {tuple(shape)}, "
            f"as {like} has {tuple(x.shape)}"
        )


def refuse_inference(op: str, name: str, tensor: Tensor) -> None:
    """torch writes to a tensor made in inference mode only within it. A kernel could anywhere, a copy could not."""
    if tensor.is_inference():
        import torch

        if not torch.is_inference_mode_enabled():
            raise InvalidArgument(
                f"{op}: {name} was made in inference mode and is written to outside of it; "
                f"give a copy made outside of it (.clone()), or call within torch.inference_mode()"
            )


def refuse_freed(op: str, **tensors: Tensor | None) -> None:
    """Before something is copied or left to torch, which reads freed memory and ends the process."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.numel() and not tensor.untyped_storage().nbytes():
            raise InvalidArgument(
                f"{op}: {name} has shape {tuple(tensor.shape)}, but no memory: its storage was freed "
                "(untyped_storage().resize_(0), as sharding does with parameters); gather or resize it first"
            )


def refuse_overlap(op: str, name: str, tensor: Tensor) -> None:
    """A tensor that is written must not have two elements in one place (expand, as_strided with small strides)."""
    if tensor.is_contiguous():
        return
    reach = 0  # how far the dimensions with smaller strides reach
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                raise InvalidArgument(
                    f"{op}: {name} has shape {tuple(tensor.shape)} and strides {tensor.stride()}, so several of its "
                    f"elements may lie in one place, and it is written to; give it memory of its own (.clone())"
                )
            reach += stride * (size - 1)


def no_tangents(name: str) -> Unsupported:
    return Unsupported(
        f"{name} has no forward-mode derivative (jvp, dual tensors): use reverse mode (backward(), torch.autograd.grad)"
    )


def refuse_tangents(name: str, values: Iterable[Any]) -> None:
    """Forward-mode derivatives are not there; torch would take them for zeros, silently."""
    import torch

    unpack = torch.autograd.forward_ad.unpack_dual
    if any(isinstance(value, torch.Tensor) and unpack(value).tangent is not None for value in values):
        raise no_tangents(name)
