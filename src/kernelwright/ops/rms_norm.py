# SPDX-License-Identifier: MIT
"""RMS normalisation of the last dimension, with an optional weight and an optional residual added first."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops import _rms_norm_checks as checks
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops._tensors import (
    dtype_codes,
    may_overlap,
    placement,
    refuse_tangents,
    require_dtype,
    require_like,
    rows,
    writable_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

MAX_COLS = 65536
MAX_EPS = 3e38


def rms_norm(
    x: Tensor, weight: Tensor | None = None, residual: Tensor | None = None, *, eps: float = 1e-6, inplace: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Divides each row by its root mean square: `y = h / sqrt(mean(h * h) + eps) * weight`.

    A row is the last dimension of `x`, 1 to 65536 elements; there may be any number of leading dimensions.

    x         float32, float16 or bfloat16, on the CPU or a GPU. float64 works too, for checking gradients: it is
              computed in plain torch, on the device of `x`. Rows that do not lie evenly in memory are copied first.
    weight    one factor a column, of the dtype of `x` or float32; None for no factor.
    residual  like `x`; then h = x + residual, else h = x. Sums are kept in float32.
    eps       added to the mean square, so that a row of zeros stays zero.
    inplace   write h into `residual` instead of a new tensor. No gradients are recorded then.

    Returns y, of the shape and dtype of `x` and contiguous; with `residual` and not `inplace`, the pair (y, h).
    Differentiable in x, weight and residual.

    >>> y = kernelwright.rms_norm(x, weight)
    >>> y, h = kernelwright.rms_norm(x, weight, residual)
    """
    import torch

    if torch.autograd.forward_ad._current_level >= 0:  # noqa: SLF001 - the public way to ask costs a microsecond
        refuse_tangents("rms_norm", x, weight, residual)
    op = torch.ops.kernelwright.rms_norm
    if residual is None:
        if inplace:
            raise InvalidArgument("rms_norm: inplace=True writes x + residual into residual, but residual is None")
        return op.default(x, weight, eps)
    return (op.residual_ if inplace else op.residual)(x, residual, weight, eps)


@cache
def _dtypes() -> tuple[Any, ...]:
    import torch

    return torch.float32, torch.float16, torch.bfloat16, torch.float64


def _check(x: Tensor, weight: Tensor | None, residual: Tensor | None, eps: float) -> None:
    shape = x.shape
    if not shape or not 1 <= shape[-1] <= MAX_COLS:
        raise InvalidArgument(
            f"rms_norm: x has shape {tuple(shape)}, but its last dimension must exist and have 1 to {MAX_COLS} elements"
        )
    require_dtype("rms_norm", "x", x, _dtypes())
    if weight is not None:
        require_dtype("rms_norm", "weight", weight, (x.dtype, _dtypes()[0]))
        require_like("rms_norm", "weight", weight, x, shape[-1:])
    if residual is not None:
        require_dtype("rms_norm", "residual", residual, (x.dtype,))
        require_like("rms_norm", "residual", residual, x, shape)
    if not 0.0 <= eps <= MAX_EPS:
        raise InvalidArgument(f"rms_norm: eps is {eps}, but must be a finite float32 that is not negative")


# --- the kernels ----------------------------------------------------------------


def _launcher(library: Library, key: str) -> Callable[..., Tensor]:
    """launch(x, weight, residual, total, eps): y; x + residual goes to `total`. Arguments were checked."""
    import torch

    kw_rms_norm = library.functions["kw_rms_norm"]
    codes = dtype_codes(library, ("float32", "float16", "bfloat16"))
    place = placement(library, key)
    contiguous = torch.contiguous_format

    def launch(x: Tensor, weight: Tensor | None, residual: Tensor | None, total: Tensor | None, eps: float) -> Tensor:
        y = torch.empty_like(x, memory_format=contiguous)
        cols, count = x.shape[-1], x.numel()
        if count == 0:
            return y
        x, x_stride = rows(x)
        code = codes[x.dtype]
        scale, scale_code = None, code
        if weight is not None:
            weight = weight.contiguous()
            scale, scale_code = weight.data_ptr(), codes[weight.dtype]
        added, added_stride, sum_, sum_stride = None, 0, None, 0
        if residual is not None and total is not None:
            residual, added_stride = rows(residual)
            added = residual.data_ptr()
            sum_, sum_stride = total.data_ptr(), writable_rows(total)[1]
        device, stream = place(x)
        # fmt: off
        status = kw_rms_norm(
            device, stream, y.data_ptr(), cols, sum_, sum_stride, x.data_ptr(), x_stride, added, added_stride,
            scale, None, count // cols, cols, code, scale_code, eps,
        )
        # fmt: on
        if status:
            library.fail("kw_rms_norm", status)
        return y

    return launch


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key), _dtypes()[-1]

    def run(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
        _check(x, weight, None, eps)
        return _reference(x, weight, eps) if x.dtype is double else launch(x, weight, None, None, eps)

    return run


def _bind_residual(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    import torch

    launch, double = _launcher(library, key), _dtypes()[-1]

    def run(x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
        _check(x, weight, residual, eps)
        if x.dtype is double:
            return _reference_residual(x, residual, weight, eps)
        total = torch.empty_like(x, memory_format=torch.contiguous_format)
        return launch(x, weight, residual, total, eps), total

    return run


def _bind_residual_(library: Library, key: str) -> Callable[..., Tensor]:
    import torch

    launch, double = _launcher(library, key), _dtypes()[-1]
    written = torch.autograd.graph.increment_version

    def run(x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
        _check(x, weight, residual, eps)
        if x.dtype is double:
            return _reference_residual_(x, residual, weight, eps)
        if residual.numel():
            # The kernel may read a row after it wrote another one.
            x = x.clone() if may_overlap(x, residual) else x
            weight = weight.clone() if weight is not None and may_overlap(weight, residual) else weight
        total, _ = writable_rows(residual)
        y = launch(x, weight, total, total, eps)
        if total is residual:
            written(residual)  # a backward pass that saved it must notice, as after any operator of torch's
        else:
            residual.copy_(total)
        return y

    return run


# --- the definition, in plain torch ----------------------------------------------


def _wide(x: Tensor) -> Tensor:
    """In the type that sums are kept in."""
    return x if x.dtype is _dtypes()[-1] else x.float()


def _normalised(h: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    y = h * (h * h).mean(-1, keepdim=True).add(eps).rsqrt()
    return y if weight is None else y * weight.to(h.dtype)


def _reference(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    return _normalised(_wide(x), weight, eps).to(x.dtype).contiguous()


def _reference_residual(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    h = _wide(x) + _wide(residual)
    return _normalised(h, weight, eps).to(x.dtype).contiguous(), h.to(x.dtype).contiguous()


def _reference_residual_(x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    y, h = _reference_residual(x, residual, weight, eps)
    residual.copy_(h)
    return y


def _fake(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    import torch

    _check(x, weight, None, eps)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_residual(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    import torch

    _check(x, weight, residual, eps)
    y, h = (torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(2))
    return y, h


def _fake_residual_(x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    _check(x, weight, residual, eps)
    return _fake(x)


# --- gradients --------------------------------------------------------------------


def _gradients(ctx: Any, grad: Tensor, h: Tensor, weight: Tensor | None, place: int) -> tuple[Tensor, Tensor | None]:
    """Of h, in the wide type, and of weight, argument number `place`, if that is wanted."""
    g, wide = _wide(grad), _wide(h)
    rstd = (wide * wide).mean(-1, keepdim=True).add(ctx.eps).rsqrt()
    unit = wide * rstd
    to_weight = None
    if weight is not None:
        if ctx.needs_input_grad[place]:  # without a weight the dispatcher may have left the argument out
            to_weight = (g * unit).reshape(-1, h.shape[-1]).sum(0).to(weight.dtype)
        g = g * weight.to(g.dtype)
    return rstd * (g - unit * (g * unit).mean(-1, keepdim=True)), to_weight


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001 - torch passes it by name
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    to_h, to_weight = _gradients(ctx, grad, x, weight, 1)
    return to_h.to(x.dtype), to_weight, None


def _save_residual(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, _, weight, ctx.eps = inputs
    ctx.save_for_backward(output[1], weight)  # h itself, so that neither x nor residual is kept alive


def _backward_residual(ctx: Any, grad: Tensor, grad_h: Tensor) -> tuple[Tensor | None, ...]:
    h, weight = ctx.saved_tensors
    to_h, to_weight = _gradients(ctx, grad, h, weight, 2)
    to_h = (to_h + _wide(grad_h)).to(h.dtype)
    return to_h, to_h, to_weight, None


OP = Op(
    name="rms_norm",
    doc="RMS normalisation of rows, with optional weight and residual addition (also in place)",
    function=rms_norm,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=_reference,
            backward=Backward(_save, _backward),
        ),
        Overload(
            name="residual",
            schema="(Tensor x, Tensor residual, Tensor? weight=None, float eps=1e-6) -> (Tensor, Tensor)",
            bind=_bind_residual,
            fake=_fake_residual,
            reference=_reference_residual,
            backward=Backward(_save_residual, _backward_residual),
        ),
        Overload(
            name="residual_",
            schema="(Tensor x, Tensor(a!) residual, Tensor? weight=None, float eps=1e-6) -> Tensor",
            bind=_bind_residual_,
            fake=_fake_residual_,
            reference=_reference_residual_,
        ),
    ),
    cases=checks.CASES,
    benchmarks=checks.BENCHMARKS,
    make=checks.make,
    bytes=checks.traffic,
    flops=checks.flops,
    tolerances=checks.TOLERANCES,
    selfcheck=checks.selfcheck,
    eager=checks.EAGER,
)
