# SPDX-License-Identifier: MIT
"""Layer normalisation of the last dimension, with an optional weight and an optional bias."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops._record import Case, Op, Overload, Tolerance
from kernelwright.ops._selfcheck import compare, pack, rounded, unpack
from kernelwright.ops._tensors import dtype_codes, placement, require_dtype, require_like, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

MAX_COLS = 65536
MAX_EPS = 3e38
_DTYPES = ("float32", "float16", "bfloat16")
_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
    """Takes the mean off each row and divides by the deviation: `(x - mean) / sqrt(var + eps) * weight + bias`.

    A row is the last dimension of `x`, 1 to 65536 elements of float32, float16 or bfloat16. weight and bias have the
    dtype of `x` or float32, both the same. Returns y, of the shape and dtype of `x`. On the CPU; without derivatives.
    """
    import torch

    return torch.ops.kernelwright.layer_norm.default(x, weight, bias, eps)


def _check(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> None:
    import torch

    shape = x.shape
    if not shape or not 1 <= shape[-1] <= MAX_COLS:
        raise InvalidArgument(f"layer_norm: x has shape {tuple(shape)}, but must end in 1 to {MAX_COLS} elements")
    require_dtype("layer_norm", "x", x, (torch.float32, torch.float16, torch.bfloat16, torch.float64))
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None:
            allowed = (x.dtype, torch.float32) if name == "weight" or weight is None else (weight.dtype,)
            require_dtype("layer_norm", name, tensor, allowed)
            require_like("layer_norm", name, tensor, x, shape[-1:])
    if not 0.0 <= eps <= MAX_EPS:
        raise InvalidArgument(f"layer_norm: eps is {eps}, but must be a finite float32 that is not negative")


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    codes, place = dtype_codes(library, _DTYPES), placement(library, key)

    def run(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
        _check(x, weight, bias, eps)
        if x.dtype is torch.float64:
            return _reference(x, weight, bias, eps)
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        cols, count = x.shape[-1], x.numel()
        if count == 0:
            return y
        x, stride = rows(x)
        affine = [None if tensor is None else tensor.contiguous() for tensor in (weight, bias)]
        addresses = [None if tensor is None else tensor.data_ptr() for tensor in affine]
        code = next((codes[tensor.dtype] for tensor in affine if tensor is not None), codes[x.dtype])
        library.call(
            "kw_layer_norm", *place(x), y.data_ptr(), cols, None, 0, x.data_ptr(), stride, None, 0, *addresses,
            None, None, count // cols, cols, codes[x.dtype], code, eps,
        )  # fmt: skip
        return y

    return run


def _reference(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    import torch

    h = x if x.dtype is torch.float64 else x.float()
    h = h - h.mean(-1, keepdim=True)
    y = h * (h * h).mean(-1, keepdim=True).add(eps).rsqrt()
    y = y if weight is None else y * weight.to(h.dtype)
    y = y if bias is None else y + bias.to(h.dtype)
    return y.to(x.dtype).contiguous()


def _fake(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    import torch

    _check(x, weight, bias, eps)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


# An offset that brings a result near zero leaves the error of the terms.
TOLERANCES = {
    "float64": Tolerance(1e-12, 1e-12),
    "float32": Tolerance(3e-6, 3e-6),
    "float16": Tolerance(2.0**-11 * 1.02, 3e-6),
    "bfloat16": Tolerance(2.0**-8 * 1.01, 3e-6),
}
_SHAPES = ((3, 1), (3, 33), (3, 15), (3, 64), (3, 1000), (64,), (0, 64), (2, 3, 40), (1, 65536))
CASES = tuple(
    Case("default", shape, dtype, {"weight": kind, "bias": kind})
    for shape, kind in zip(_SHAPES, (None, "same", "float32") * 3, strict=True)
    for dtype in _DTYPES
)


def make(case: Case, device: Any, generator: Any) -> tuple[Any, ...]:
    import torch

    def draw(*shape: int, dtype: str = case.dtype) -> Any:
        return torch.randn(shape, generator=generator, device=device).to(getattr(torch, dtype))

    kind = case.options["weight"]
    dtype = case.dtype if kind == "same" else kind
    affine = (None if kind is None else draw(case.shape[-1], dtype=dtype) for _ in range(2))
    return (draw(*case.shape), *affine, 1e-5)


def selfcheck(library: Library) -> str:
    count, eps = 37, 1e-5
    draw = random.Random()  # noqa: S311 - numbers to compute with, not secrets
    x, weight, bias = (rounded("float32", [draw.gauss(1, 1) for _ in range(count)]) for _ in range(3))
    mean = sum(x) / count
    rstd = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / count + eps)
    expected = [(v - mean) * rstd * w + b for v, w, b in zip(x, weight, bias, strict=True)]
    y, inputs = pack("float32", [7.0] * count), [pack("float32", values) for values in (x, weight, bias)]
    library.call(
        "kw_layer_norm", library.constants["KW_CPU"], None, y, count, None, 0, inputs[0], count, None, 0,
        inputs[1], inputs[2], None, None, 1, count, 0, 0, eps,
    )  # fmt: skip
    bound = TOLERANCES["float32"]
    share = compare("layer_norm, float32", unpack("float32", y), expected, bound.relative, bound.absolute)
    return f"float32 {100 * share:.0f} % of the error allowed"


OP = Op(
    name="layer_norm",
    doc="Layer normalisation of rows, with optional weight and bias",
    function=layer_norm,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=_reference,
        ),
    ),
    cases=CASES,
    benchmarks=(Case("default", (4096, 4096), "bfloat16", {"weight": "same", "bias": "same"}),),
    make=make,
    bytes=lambda case: 2 * math.prod(case.shape) * _SIZES[case.dtype],
    flops=lambda case: 8 * math.prod(case.shape),
    tolerances=TOLERANCES,
    selfcheck=selfcheck,
)
