# SPDX-License-Identifier: MIT
"""The gated activation silu(gate) * up, of two inputs or of one that holds both, forward and backward."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InvalidArgument
from kernelwright.ops import _swiglu_checks as checks
from kernelwright.ops import _swiglu_reference as reference
from kernelwright.ops._record import Backward, Op, Overload
from kernelwright.ops._tensors import dtype_codes, placement, refuse_tangents, require_dtype, require_like, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library


def swiglu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """The gated activation of a feed-forward layer: `y = silu(gate) * up`, where silu(v) = v / (1 + exp(-v)).

    gate  float32, float16 or bfloat16, on the CPU or a GPU, of any shape with at least one dimension; computed in
          float32. float64 works too, for checking gradients: it is computed in plain torch, on the device of `gate`.
          Rows (the last dimension) that do not lie evenly in memory are copied first.
    up    like `gate`. None: `gate` holds both, [gate | up] side by side in its last dimension, which must be even.

    Returns y, of the dtype and shape of `gate` (packed: half as wide), contiguous. Differentiable.

    >>> y = kernelwright.swiglu(gate, up)
    >>> y = kernelwright.swiglu(linear(x))  # one matrix for both
    """
    import torch

    if torch.autograd.forward_ad._current_level >= 0:  # noqa: SLF001 - the public way to ask costs a microsecond
        refuse_tangents("swiglu", gate, up)
    op = torch.ops.kernelwright.swiglu
    return op.packed(gate) if up is None else op.default(gate, up)


@cache
def _dtypes() -> tuple[Any, ...]:
    import torch

    return torch.float32, torch.float16, torch.bfloat16, torch.float64


# --- what is refused ------------------------------------------------------------


def _check_first(name: str, tensor: Tensor) -> None:
    if not tensor.shape:
        raise InvalidArgument(f"swiglu: {name} has shape (), but must have at least one dimension")
    require_dtype("swiglu", name, tensor, _dtypes())


def _check_like(name: str, tensor: Tensor, like: str, other: Tensor, shape: tuple[Any, ...]) -> None:
    require_dtype("swiglu", name, tensor, (other.dtype,))
    require_like("swiglu", name, tensor, like, other, shape)


def _check(gate: Tensor, up: Tensor) -> None:
    _check_first("gate", gate)
    _check_like("up", up, "gate", gate, gate.shape)


def _check_packed(x: Tensor) -> tuple[Any, ...]:
    """The shape of the result."""
    _check_first("x", x)
    shape = x.shape
    if shape[-1] % 2:
        raise InvalidArgument(
            f"swiglu: x has shape {tuple(shape)}, but [gate | up] in one tensor needs an even last dimension; "
            "give gate and up as two tensors if they are"
        )
    return (*shape[:-1], shape[-1] // 2)


def _check_backward(grad: Tensor, gate: Tensor, up: Tensor) -> None:
    _check(gate, up)
    _check_like("grad", grad, "gate", gate, gate.shape)


def _check_packed_backward(grad: Tensor, x: Tensor) -> None:
    _check_like("grad", grad, "x", x, _check_packed(x))


# --- the kernels ----------------------------------------------------------------


def _empty_like(tensor: Tensor) -> Tensor:
    import torch

    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _empty(shape: tuple[Any, ...], like: Tensor) -> Tensor:
    import torch

    return torch.empty(shape, dtype=like.dtype, device=like.device)


def _halves(x: Tensor) -> tuple[int, int]:
    """Addresses of gate and up in a packed tensor."""
    start = x.data_ptr()
    return start, start + x.shape[-1] // 2 * x.element_size()


def _launcher(library: Library, key: str, function: str) -> Callable[..., None]:
    """launch(like, *parts): `function` on rows as `like` has them, which is contiguous and not empty."""
    call = library.functions[function]
    codes = dtype_codes(library, ("float32", "float16", "bfloat16"))
    place = placement(library, key)

    def launch(like: Tensor, *parts: int) -> None:
        device, stream = place(like)
        cols = like.shape[-1]
        status = call(device, stream, *parts, like.numel() // cols, cols, codes[like.dtype])
        if status:
            library.fail(function, status)

    return launch


def _bind(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key, "kw_swiglu"), _dtypes()[-1]

    def run(gate: Tensor, up: Tensor) -> Tensor:
        _check(gate, up)
        if gate.dtype is double:
            return reference.forward(gate, up)
        y = _empty_like(gate)
        if y.numel():
            (gate, gate_stride), (up, up_stride) = rows(gate), rows(up)
            launch(y, y.data_ptr(), y.shape[-1], gate.data_ptr(), gate_stride, up.data_ptr(), up_stride)
        return y

    return run


def _bind_packed(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key, "kw_swiglu"), _dtypes()[-1]

    def run(x: Tensor) -> Tensor:
        shape = _check_packed(x)
        if x.dtype is double:
            return reference.packed(x)
        y = _empty(shape, x)
        if y.numel():
            x, stride = rows(x)
            gate, up = _halves(x)
            launch(y, y.data_ptr(), y.shape[-1], gate, stride, up, stride)
        return y

    return run


def _bind_backward(library: Library, key: str) -> Callable[..., tuple[Tensor, Tensor]]:
    launch, double = _launcher(library, key, "kw_swiglu_backward"), _dtypes()[-1]

    def run(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        _check_backward(grad, gate, up)
        if gate.dtype is double:
            return reference.backward(grad, gate, up)
        dgate, dup = _empty_like(gate), _empty_like(gate)
        if dgate.numel():
            cols = gate.shape[-1]
            (grad, grad_stride), (gate, gate_stride), (up, up_stride) = rows(grad), rows(gate), rows(up)
            # fmt: off
            launch(
                dgate, dgate.data_ptr(), cols, dup.data_ptr(), cols,
                grad.data_ptr(), grad_stride, gate.data_ptr(), gate_stride, up.data_ptr(), up_stride,
            )
            # fmt: on
        return dgate, dup

    return run


def _bind_packed_backward(library: Library, key: str) -> Callable[..., Tensor]:
    launch, double = _launcher(library, key, "kw_swiglu_backward"), _dtypes()[-1]

    def run(grad: Tensor, x: Tensor) -> Tensor:
        _check_packed_backward(grad, x)
        if x.dtype is double:
            return reference.packed_backward(grad, x)
        dx = _empty_like(x)
        if dx.numel():
            grad, grad_stride = rows(grad)
            x, stride = rows(x)
            (dgate, dup), (gate, up), width = _halves(dx), _halves(x), dx.shape[-1]
            launch(grad, dgate, width, dup, width, grad.data_ptr(), grad_stride, gate, stride, up, stride)
        return dx

    return run


# --- without values ---------------------------------------------------------------


def _fake(gate: Tensor, up: Tensor) -> Tensor:
    _check(gate, up)
    return _empty_like(gate)


def _fake_packed(x: Tensor) -> Tensor:
    return _empty(_check_packed(x), x)


def _fake_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    _check_backward(grad, gate, up)
    return _empty_like(gate), _empty_like(gate)


def _fake_packed_backward(grad: Tensor, x: Tensor) -> Tensor:
    _check_packed_backward(grad, x)
    return _empty_like(x)


# --- gradients --------------------------------------------------------------------


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ARG001 - torch passes it by name
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    found: tuple[Tensor, Tensor] = torch.ops.kernelwright.swiglu.backward(grad, *ctx.saved_tensors)
    return found


def _gradients_packed(ctx: Any, grad: Tensor) -> tuple[Tensor]:
    import torch

    return (torch.ops.kernelwright.swiglu.packed_backward(grad, *ctx.saved_tensors),)


def _second(ctx: Any, to_gate: Tensor, to_up: Tensor) -> tuple[Tensor, ...]:
    return reference.second(to_gate, to_up, *ctx.saved_tensors)


def _second_packed(ctx: Any, to_x: Tensor) -> tuple[Tensor, ...]:
    return reference.second_packed(to_x, *ctx.saved_tensors)


OP = Op(
    name="swiglu",
    doc="gated activation silu(gate) * up, of two tensors or of one that holds both",
    function=swiglu,
    overloads=(
        Overload(
            name="default",
            schema="(Tensor gate, Tensor up) -> Tensor",
            bind=_bind,
            fake=_fake,
            reference=reference.forward,
            backward=Backward(_save, _gradients),
        ),
        Overload(
            name="packed",
            schema="(Tensor x) -> Tensor",
            bind=_bind_packed,
            fake=_fake_packed,
            reference=reference.packed,
            backward=Backward(_save, _gradients_packed),
        ),
        Overload(
            name="backward",
            schema="(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)",
            bind=_bind_backward,
            fake=_fake_backward,
            reference=reference.backward,
            backward=Backward(_save, _second),
            terms=reference.terms_of_backward,
        ),
        Overload(
            name="packed_backward",
            schema="(Tensor grad, Tensor x) -> Tensor",
            bind=_bind_packed_backward,
            fake=_fake_packed_backward,
            reference=reference.packed_backward,
            backward=Backward(_save, _second_packed),
            terms=reference.terms_of_packed_backward,
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
