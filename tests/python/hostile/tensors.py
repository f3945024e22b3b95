# SPDX-License-Identifier: MIT
"""What can be odd about a tensor: each makes another of a right one, by name."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch

Odd = Callable[[torch.Tensor, random.Random], Any]


def ordinary(t: torch.Tensor) -> bool:
    """Whether another can be made of it. Of the odder ones torch itself makes crashes, or takes forever."""
    plain = not t.is_nested and t.layout == torch.strided and not t.is_quantized
    return plain and t.device.type == "cpu" and t.numel() < 1 << 20


def _dtype(dtype: Any) -> Odd:
    return lambda t, _: t.to(dtype)


def _filled(value: float) -> Odd:
    def fill(t: torch.Tensor, draw: random.Random) -> torch.Tensor:
        if not t.is_floating_point() or t.device.type == "meta":
            return t
        t = t.detach().clone()
        if draw.random() < 0.5 or not t.numel():
            return t.fill_(value)
        t.view(-1)[draw.randrange(t.numel())] = value
        return t

    return fill


def _apart(t: torch.Tensor, draw: random.Random) -> torch.Tensor:
    """The same values with gaps between elements, rows or planes, off alignment, possibly in another order."""
    if t.layout != torch.strided or t.is_nested or t.is_quantized:
        return t
    order = draw.sample(range(t.dim()), t.dim())
    strides, step = [0] * t.dim(), draw.choice([1, 1, 2])
    for dim in order:
        strides[dim] = step
        step = step * max(1, t.shape[dim]) + draw.choice([0, 0, 1, 3])
    room = torch.zeros(step + 7, dtype=t.dtype, device=t.device)
    return room.as_strided(t.shape, strides, draw.choice([0, 1, 3])).copy_(t.detach())


def _overlapping(t: torch.Tensor, draw: random.Random) -> torch.Tensor:
    strides = [draw.choice([0, 1, 1, 2]) for _ in t.shape]
    extent = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, strides, strict=True) if size)
    return torch.randn(max(1, extent)).to(t.dtype).as_strided(t.shape, strides)


def _negative(t: torch.Tensor, draw: random.Random) -> torch.Tensor:
    """Looks plain, but is negated on access."""
    real = t.detach().float()
    return torch.complex(real, -real).conj().imag


def _broadcast(t: torch.Tensor, draw: random.Random) -> torch.Tensor:
    if not t.dim() or not t.numel():
        return t
    dim = draw.randrange(t.dim())
    return t.narrow(dim, 0, 1).expand(t.shape)


def _reshaped(change: Callable[[list[int], random.Random], list[int]]) -> Odd:
    return lambda t, draw: torch.randn(change(list(t.shape), draw)).to(t.dtype)


def _with(size: int) -> Odd:
    def change(shape: list[int], draw: random.Random) -> list[int]:
        if shape:
            shape[draw.randrange(len(shape))] = size
        return shape

    return _reshaped(change)


def _more(shape: list[int], draw: random.Random) -> list[int]:
    if shape:
        shape[draw.randrange(len(shape))] += draw.choice([-1, 1]) if 0 not in shape else 1
    return shape


class Subclass(torch.Tensor):
    """A user's own kind of tensor that changes nothing."""


def _huge(*shape: int) -> Odd:
    """One element that is everywhere: such a tensor exists, its result cannot."""
    return lambda t, _: torch.ones(1, dtype=t.dtype).expand(shape)


def _inference(t: torch.Tensor, draw: random.Random) -> torch.Tensor:
    with torch.inference_mode():
        return t.detach().clone()


def _shifted(t: torch.Tensor, draw: random.Random) -> torch.Tensor:
    """At an address that is no multiple of the element's size."""
    size = t.numel() * t.element_size()
    if size == 0 or t.device.type != "cpu":
        return t
    return torch.frombuffer(bytearray(size + 1), dtype=t.dtype, offset=1).view(t.shape)


ODDITIES: dict[str, Odd] = {
    **{f"of {str(d).removeprefix('torch.')}": _dtype(d) for d in (
        torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool,
        torch.complex64, torch.float8_e4m3fn,
    )},
    **{f"with {value}": _filled(value) for value in (math.nan, math.inf, -math.inf, 0.0, 6e4, 1e-20, 1e15)},
    "apart": _apart,
    "far apart": _apart,
    "in another order": _apart,
    "overlapping itself": _overlapping,
    "broadcast": _broadcast,
    "negated on access": _negative,
    "conjugated": lambda t, _: torch.complex(t.detach().float(), t.detach().float()).conj(),
    "meta": lambda t, _: t.to("meta"),
    "requiring gradients": lambda t, _: t.detach().clone().requires_grad_(t.is_floating_point()),
    "inside a graph": lambda t, _: (t.detach().clone().requires_grad_() * 1.0) if t.is_floating_point() else t,
    "a parameter": lambda t, _: torch.nn.Parameter(t.detach().clone(), requires_grad=t.is_floating_point()),
    "a subclass": lambda t, _: t.detach().clone().as_subclass(Subclass),
    "made in inference mode": _inference,
    "sparse": lambda t, _: t.detach().to_sparse(),
    "sparse by rows": lambda t, _: t.detach().reshape(-1, max(1, t.shape[-1] if t.dim() else 1)).to_sparse_csr(),
    "nested": lambda t, _: torch.nested.nested_tensor([t.detach(), t.detach()]),
    "nested, jagged": lambda t, _: torch.nested.nested_tensor([t.detach().float()] * 2, layout=torch.jagged),
    "quantized": lambda t, _: torch.quantize_per_tensor(t.detach().float(), 0.1, 0, torch.qint8),
    "of MKL-DNN": lambda t, _: t.detach().float().to_mkldnn(),
    "misaligned": _shifted,
    "a scalar": lambda t, _: t.detach().sum() if t.is_floating_point() else t.reshape(-1)[:1].sum(),
    "without a dimension": _reshaped(lambda shape, _: shape[1:]),
    "with a dimension more": _reshaped(lambda shape, _: [2, *shape]),
    "with a size of 0": _with(0),
    "with a size of 1": _with(1),
    "one more or less": _reshaped(_more),
    "without columns": _reshaped(lambda shape, _: [*shape[:-1], 0]),
    "with too many columns": _reshaped(lambda shape, _: [*[1] * (len(shape) - 1), 65537]),
    "with more rows than memory": _huge(1 << 44, 4),
    "with more elements than int64": _huge(1 << 47, 1 << 16),
}  # fmt: skip


def view_of(other: torch.Tensor, value: torch.Tensor, draw: random.Random) -> Any:
    """Of the shape of `value`, in the memory of `other`, possibly beside it by some elements."""
    try:
        whole = other.detach().view(-1)
        shift = draw.choice([0, 1, 2])
        return whole[shift : shift + value.numel()].view(value.shape)
    except (RuntimeError, TypeError, NotImplementedError):
        return other


def shown(value: Any) -> str:
    """A value in a line: of a tensor what matters to a kernel."""
    if not isinstance(value, torch.Tensor):
        return repr(value) if not isinstance(value, tuple) else f"a tuple of {len(value)}"
    words = [str(value.dtype).removeprefix("torch."), str(tuple(value.shape)) if not value.is_nested else "nested"]
    if value.layout == torch.strided and not value.is_nested:
        words.append(f"strides {value.stride()}")
    else:
        words.append(str(value.layout))
    words += [f"on {value.device}"] * (value.device.type != "cpu") + ["grad"] * value.requires_grad
    return f"<{' '.join(words)}>"
