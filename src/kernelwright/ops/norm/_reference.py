# SPDX-License-Identifier: MIT
"""The normalisations in plain torch: their definition and derivatives, which float64 always runs; what one writes
today in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.ops._tensors import settled
from kernelwright.ops.norm._checks import double

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernelwright.ops.norm._shared import Norm

    Call = Callable[[], Any]
    Parameters = tuple[Tensor | None, ...]


def _wide(x: Tensor) -> Tensor:
    """In the type that sums are kept in."""
    return x if x.dtype is double() else x.float()


@dataclass(frozen=True)
class Reference:
    """The overloads of a norm with these properties (see Norm)."""

    standardise: Callable[[Tensor, float], tuple[Tensor, Tensor]]
    centered: bool

    def _normalised(self, h: Tensor, parameters: Parameters, eps: float) -> Tensor:
        y, _ = self.standardise(h, eps)
        weight, bias = (*parameters, None)[:2]
        if weight is not None:
            y = y * weight.to(h.dtype)
        return y if bias is None else y + bias.to(h.dtype)

    def default(self, x: Tensor, residual: None, parameters: Parameters, eps: float) -> Tensor:  # noqa: ARG002
        return settled(self._normalised(_wide(x), parameters, eps), x.dtype)

    def residual(self, x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> tuple[Tensor, Tensor]:
        h = _wide(x) + _wide(residual)
        return settled(self._normalised(h, parameters, eps), x.dtype), settled(h, x.dtype)

    def residual_(self, x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> Tensor:
        y, h = self.residual(x, residual, parameters, eps)
        residual.copy_(h)
        return y

    def backward(
        self,
        grad: Tensor,
        h: Tensor,
        parameters: Parameters,
        grad_sum: Tensor | None,
        eps: float,
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:
        dy = _wide(grad)
        unit, rstd = self.standardise(_wide(h), eps)
        g = dy if parameters[0] is None else dy * parameters[0].to(dy.dtype)
        dx = g - unit * (g * unit).mean(-1, keepdim=True)
        if self.centered:
            dx = dx - g.mean(-1, keepdim=True)
        dx = rstd * dx
        if grad_sum is not None:
            dx = dx + _wide(grad_sum)
        terms = (dy * unit, dy)  # what weight and bias are multiplied with
        to_parameters = [
            # A sum over no row is zeros; not wanted is no element at all.
            term.reshape(-1, h.shape[-1]).sum(0).to((h if p is None else p).dtype) if want
            else dy.new_empty(0, dtype=(h if p is None else p).dtype)
            for term, p, want in zip(terms, parameters, wanted, strict=False)
        ]  # fmt: skip
        return settled(dx, h.dtype), *to_parameters

    # How large the terms are whose sums the outputs are (Overload.terms).

    def _terms_of_unit(self, h: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Of unit, and 1 / deviation: taking the mean off is what loses digits, and the mean is a sum itself."""
        unit, rstd = self.standardise(h, eps)
        return (h.abs() + h.abs().mean(-1, keepdim=True)) * rstd if self.centered else unit.abs(), rstd

    def _terms(self, h: Tensor, parameters: Parameters, eps: float) -> Tensor:
        terms, _ = self._terms_of_unit(h, eps)
        weight, bias = (*parameters, None)[:2]
        if weight is not None:
            terms = terms * weight.abs()
        return terms if bias is None else terms + bias.abs()

    def terms_of_default(self, x: Tensor, residual: None, parameters: Parameters, eps: float) -> tuple[Any, ...]:  # noqa: ARG002
        return (self._terms(x, parameters, eps),)

    def terms_of_residual(self, x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> tuple[Any, ...]:
        return self._terms(x + residual, parameters, eps), 0.0

    def terms_of_residual_(self, x: Tensor, residual: Tensor, parameters: Parameters, eps: float) -> tuple[Any, ...]:
        return (self._terms(x + residual, parameters, eps),)

    def terms_of_backward(
        self,
        grad: Tensor,
        h: Tensor,
        parameters: Parameters,
        grad_sum: Tensor | None,
        eps: float,
        wanted: tuple[bool, ...],
    ) -> tuple[Any, ...]:
        unit, rstd = self._terms_of_unit(h, eps)
        g = grad.abs() if parameters[0] is None else (grad * parameters[0]).abs()
        to_h = rstd * (g + g.mean(-1, keepdim=True) + unit * (g * unit).mean(-1, keepdim=True))
        to_h = to_h if grad_sum is None else to_h + grad_sum.abs()
        sums = (grad.abs() * unit, grad.abs())
        to_parameters = [
            term.reshape(-1, h.shape[-1]).sum(0) if want else 0.0 for term, want in zip(sums, wanted, strict=False)
        ]
        return to_h, *to_parameters


# --- x in 16 bits beside a residual in float32, as layers give it within autocast: the sum stays in float32


def mixed(x: Any, residual: Any) -> bool:
    given, held = getattr(x, "dtype", None), getattr(residual, "dtype", None)
    if given is held or given is None or held is None:
        return False
    import torch

    return held is torch.float32 and given in (torch.float16, torch.bfloat16)


def in_float32(x: Tensor, residual: Tensor, parameters: tuple[Tensor | None, ...], norm: Callable[..., Any]) -> Any:
    """What `norm(x, residual, parameters)` gives in float32, with y rounded once to the type of x."""
    wide = tuple(p.float() if getattr(p, "dtype", None) is x.dtype else p for p in parameters)  # type: ignore[union-attr]
    found = norm(x.float(), residual, wide)
    if isinstance(found, tuple):
        return found[0].to(x.dtype), found[1]
    return found.to(x.dtype)


# --- what one writes in torch today, for benchmarks to compare with (Op.eager)


class Eager:
    """torch.nn.functional has both norms under the same names, with the same order of arguments."""

    def __init__(self, norm: Norm) -> None:
        self._name, self._count = norm.name, len(norm.parameters)

    def _function(self) -> Callable[..., Any]:
        from torch.nn import functional

        return getattr(functional, self._name)

    def default(self, x: Any, *rest: Any) -> Call:
        function = self._function()
        return lambda: function(x, x.shape[-1:], *rest)

    def residual(self, x: Any, residual: Any, *rest: Any) -> Call:
        function = self._function()

        def call() -> Any:
            h = x + residual
            return function(h, h.shape[-1:], *rest), h

        return call

    def residual_(self, x: Any, residual: Any, *rest: Any) -> Call:
        function = self._function()
        return lambda: (function(residual.add_(x), x.shape[-1:], *rest), residual)

    def backward(self, grad: Any, h: Any, *rest: Any) -> Call:
        """Autograd's, of a forward pass that is not timed."""
        import torch

        parameters, (grad_sum, eps, *wanted) = rest[: self._count], rest[self._count :]
        h = h.detach().requires_grad_()
        differentiated = [
            p.detach().requires_grad_(want) if want else p for p, want in zip(parameters, wanted, strict=True)
        ]
        with torch.enable_grad():
            y = self._function()(h, h.shape[-1:], *differentiated, eps)
        inputs = [h, *(p for p, want in zip(differentiated, wanted, strict=True) if want)]

        def call() -> Any:
            to_h, *found = torch.autograd.grad(y, inputs, grad, retain_graph=True)
            return (to_h if grad_sum is None else to_h + grad_sum), *found

        return call

    def calls(self) -> dict[str, Callable[..., Call]]:
        return {name: getattr(self, name) for name in ("default", "residual", "residual_", "backward")}
