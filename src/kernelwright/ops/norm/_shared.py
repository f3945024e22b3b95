# SPDX-License-Identifier: MIT
"""What the normalisations of rows share: their four overloads, on the CPU, on a GPU, without values, in plain torch.

A norm's own file has its name, its parameters, its formula, and how its schemas order the arguments. Here a call is
always (x, residual, parameters, eps), and a derivative (grad, h, parameters, grad_sum, eps, wanted), where `parameters`
are (weight,) or (weight, bias), each a tensor or None, and `wanted` says for each whether its derivative is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.ops._handles import refused
from kernelwright.ops._record import Overload
from kernelwright.ops._tensors import reaches, refuse_freed, rows, span, writable_rows
from kernelwright.ops.norm import _checks as checks
from kernelwright.ops.norm._gradients import gradient_of_backward, gradient_of_default, gradient_of_residual
from kernelwright.ops.norm._launch import backward_launcher, backward_name, forward_name, inplace_launcher, launcher
from kernelwright.ops.norm._reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

    Parameters = tuple[Tensor | None, ...]
    Run = Callable[..., Any]
    Schema = tuple[str, Callable[[Run], Run]]
    """torch's schema, and what makes a function with its arguments of one with the arguments described above."""


@dataclass(frozen=True)
class Norm:
    """A normalisation: `y = unit * weight + bias`, where `standardise(h, eps)` gives unit and 1 / deviation."""

    name: str
    parameters: tuple[str, ...]
    standardise: Callable[[Tensor, float], tuple[Tensor, Tensor]]
    centered: bool
    """Whether the mean is taken off: each row of `unit` then sums to zero, and so does its derivative."""

    def overloads(self, default: Schema, residual: Schema, residual_: Schema, backward: Schema) -> tuple[Overload, ...]:
        reference, fake = Reference(self.standardise, centered=self.centered), _Fake(self)
        gradients = {
            "default": gradient_of_default(self.name, len(self.parameters)),
            "residual": gradient_of_residual(self.name, len(self.parameters)),
            "backward": gradient_of_backward(reference, len(self.parameters)),
        }
        binds = {"residual_": _bind_residual_, "backward": _bind_backward}
        schemas = {"default": default, "residual": residual, "residual_": residual_, "backward": backward}
        return tuple(
            Overload(
                name=name,
                schema=schema,
                bind=lambda library, key, name=name, order=order: order(
                    binds.get(name, _bind)(self, reference, library, key, name)
                ),  # type: ignore[misc]
                fake=order(getattr(fake, name)),
                reference=order(getattr(reference, name)),
                backward=gradients.get(name),
                rows=("x", "residual", "grad", "h", "grad_sum"),
                sums=tuple(range(1, 1 + len(self.parameters))) if name == "backward" else (),
                # rms_norm's forward pass subtracts nothing: its errors are in proportion to the result.
                terms=order(getattr(reference, f"terms_of_{name}")) if self.centered or name == "backward" else None,
            )
            for name, (schema, order) in schemas.items()
        )


class _Fake:
    """The checks, and outputs without values."""

    def __init__(self, norm: Norm) -> None:
        self.name, self.parameters = norm.name, norm.parameters

    def default(self, x: Tensor, residual: None, parameters: tuple[Tensor | None, ...], eps: float) -> Tensor:
        checks.check(self.name, self.parameters, x, residual, parameters, eps)
        return _like(x)

    def residual(
        self, x: Tensor, residual: Tensor, parameters: tuple[Tensor | None, ...], eps: float
    ) -> tuple[Tensor, Tensor]:
        checks.check(self.name, self.parameters, x, residual, parameters, eps)
        return _like(x), _like(x)

    def residual_(self, x: Tensor, residual: Tensor, parameters: tuple[Tensor | None, ...], eps: float) -> Tensor:
        checks.check(self.name, self.parameters, x, residual, parameters, eps)
        checks.refuse_inference(self.name, "residual", residual)
        checks.refuse_overlap(self.name, "residual", residual)
        return _like(x)

    def backward(
        self,
        grad: Tensor,
        h: Tensor,
        parameters: tuple[Tensor | None, ...],
        grad_sum: Tensor | None,
        eps: float,
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:
        checks.check_backward(self.name, self.parameters, grad, h, parameters, grad_sum, eps, wanted)
        return _like(h), *(
            h.new_empty(h.shape[-1] if want else 0, dtype=(h if p is None else p).dtype)
            for p, want in zip(parameters, wanted, strict=True)
        )


def _like(x: Tensor) -> Tensor:
    import torch

    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _copied(norm: Norm, tensors: dict[str, Tensor | None]) -> list[Tensor | None]:
    """The same as the library takes them: rows that lie evenly."""
    return [
        tensor if tensor is None else tensor.contiguous() if name in norm.parameters else rows(tensor)[0]
        for name, tensor in tensors.items()
    ]


def _bind(norm: Norm, reference: Reference, library: Library, key: str, overload: str) -> Run:
    launch = launcher(norm.name, library, key, overload)
    double, by_torch, name = checks.double(), getattr(reference, overload), norm.name

    def run(x: Tensor, residual: Tensor | None, parameters: Parameters, eps: float) -> Any:
        found = launch(x, residual, parameters, eps)
        if found is not None:
            return found
        checks.check(name, norm.parameters, x, residual, parameters, eps)
        named = {"x": x, "residual": residual, **dict(zip(norm.parameters, parameters, strict=True))}
        refuse_freed(name, **named)
        if x.dtype is double:
            return by_torch(x, residual, parameters, eps)
        x, residual, *given = _copied(norm, named)
        found = launch(x, residual, tuple(given), eps)
        return found if found is not None else refused(library, forward_name(name))

    return run


def _bind_residual_(norm: Norm, reference: Reference, library: Library, key: str, overload: str) -> Run:
    import torch

    launch = inplace_launcher(norm.name, library, key, overload)
    again = _bind(norm, reference, library, key, overload)
    written = torch.autograd.graph.increment_version

    def run(x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> Any:
        found = launch(x, residual, parameters, eps)
        if found is not None:
            return found
        checks.check(norm.name, norm.parameters, x, residual, parameters, eps)
        checks.refuse_inference(norm.name, "residual", residual)
        checks.refuse_overlap(norm.name, "residual", residual)
        refuse_freed(norm.name, x=x, residual=residual, **dict(zip(norm.parameters, parameters, strict=True)))
        total, _ = writable_rows(residual)
        if total.numel():
            # The kernel may read a row after it wrote another one.
            first, end = span(total)
            x = x.clone() if reaches(x, first, end) else x
            parameters = tuple(p.clone() if p is not None and reaches(p, first, end) else p for p in parameters)
        y = again(x, total, parameters, eps)
        if total is residual:
            written(residual)
        else:
            residual.copy_(total)
        return y

    return run


def _bind_backward(norm: Norm, reference: Reference, library: Library, key: str, overload: str) -> Run:
    launch, double = backward_launcher(norm.name, library, key, overload), checks.double()

    def run(
        grad: Tensor,
        h: Tensor,
        parameters: Parameters,
        grad_sum: Tensor | None,
        eps: float,
        wanted: tuple[bool, ...],
    ) -> Any:
        found = launch(grad, h, parameters, grad_sum, eps, wanted)
        if found is not None:
            return found
        checks.check_backward(norm.name, norm.parameters, grad, h, parameters, grad_sum, eps, wanted)
        named = {"h": h, "grad": grad, "grad_sum": grad_sum, **dict(zip(norm.parameters, parameters, strict=True))}
        refuse_freed(norm.name, **named)
        if h.dtype is double:
            return reference.backward(grad, h, parameters, grad_sum, eps, wanted)
        h, grad, grad_sum, *given = _copied(norm, named)
        found = launch(grad, h, tuple(given), grad_sum, eps, wanted)
        return found if found is not None else refused(library, backward_name(norm.name))

    return run
