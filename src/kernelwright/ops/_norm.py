# SPDX-License-Identifier: MIT
"""What the normalisations of rows share: their four overloads, on the CPU, on a GPU, without values, in plain torch.

A norm's own file has its name, its parameters, its formula, and how its schemas order the arguments. Here a call is
always (x, residual, parameters, eps), and a derivative (grad, h, parameters, grad_sum, eps, wanted), where `parameters`
are (weight,) or (weight, bias), each a tensor or None, and `wanted` says for each whether its derivative is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.ops import _norm_checks as checks
from kernelwright.ops._norm_gradients import gradient_of_backward, gradient_of_default, gradient_of_residual
from kernelwright.ops._norm_launch import backward_launcher, launcher
from kernelwright.ops._norm_reference import Reference
from kernelwright.ops._record import Overload
from kernelwright.ops._tensors import reaches, span, writable_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright._library import Library

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
        binds = {"default": _bind, "residual": _bind_residual, "residual_": _bind_residual_, "backward": _bind_backward}
        schemas = {"default": default, "residual": residual, "residual_": residual_, "backward": backward}
        return tuple(
            Overload(
                name=name,
                schema=schema,
                bind=lambda library, key, bind=binds[name], order=order: order(bind(self, reference, library, key)),  # type: ignore[misc]
                fake=order(getattr(fake, name)),
                reference=order(getattr(reference, name)),
                backward=gradients.get(name),
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


def _bind(norm: Norm, reference: Reference, library: Library, key: str) -> Run:
    launch, double, check = launcher(norm.name, library, key, centered=norm.centered), checks.double(), checks.check
    name, names = norm.name, norm.parameters

    def run(x: Tensor, residual: None, parameters: tuple[Tensor | None, ...], eps: float) -> Tensor:
        check(name, names, x, residual, parameters, eps)
        if x.dtype is double:
            return reference.default(x, residual, parameters, eps)
        return launch(x, residual, parameters, None, eps)

    return run


def _bind_residual(norm: Norm, reference: Reference, library: Library, key: str) -> Run:
    import torch

    contiguous = torch.contiguous_format
    launch, double, check = launcher(norm.name, library, key, centered=norm.centered), checks.double(), checks.check
    name, names = norm.name, norm.parameters

    def run(x: Tensor, residual: Tensor, parameters: tuple[Tensor | None, ...], eps: float) -> tuple[Tensor, Tensor]:
        check(name, names, x, residual, parameters, eps)
        if x.dtype is double:
            return reference.residual(x, residual, parameters, eps)
        total = torch.empty_like(x, memory_format=contiguous)
        return launch(x, residual, parameters, total, eps), total

    return run


def _bind_residual_(norm: Norm, reference: Reference, library: Library, key: str) -> Run:
    import torch

    launch, double, check = launcher(norm.name, library, key, centered=norm.centered), checks.double(), checks.check
    written = torch.autograd.graph.increment_version
    name, names = norm.name, norm.parameters

    def run(x: Tensor, residual: Tensor, parameters: tuple[Tensor | None, ...], eps: float) -> Tensor:
        check(name, names, x, residual, parameters, eps)
        checks.refuse_inference(name, "residual", residual)
        if not residual.is_contiguous():
            checks.refuse_overlap(name, "residual", residual)
        if x.dtype is double:
            return reference.residual_(x, residual, parameters, eps)
        if residual.numel():
            # The kernel may read a row after it wrote another one.
            first, end = span(residual)
            x = x.clone() if reaches(x, first, end) else x
            for place, parameter in enumerate(parameters):
                if parameter is not None and reaches(parameter, first, end):
                    parameters = (*parameters[:place], parameter.clone(), *parameters[place + 1 :])
        total, _ = writable_rows(residual)
        y = launch(x, total, parameters, total, eps)
        if total is residual:
            written(residual)  # a backward pass that saved it must notice, as after any operator of torch's
        else:
            residual.copy_(total)
        return y

    return run


def _bind_backward(norm: Norm, reference: Reference, library: Library, key: str) -> Run:
    launch, double = backward_launcher(norm.name, library, key, centered=norm.centered), checks.double()
    name, names = norm.name, norm.parameters

    def run(
        grad: Tensor,
        h: Tensor,
        parameters: tuple[Tensor | None, ...],
        grad_sum: Tensor | None,
        eps: float,
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:
        checks.check_backward(name, names, grad, h, parameters, grad_sum, eps, wanted)
        compute = reference.backward if h.dtype is double else launch
        return compute(grad, h, parameters, grad_sum, eps, wanted)

    return run
