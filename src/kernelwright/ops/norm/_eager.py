# SPDX-License-Identifier: MIT
"""What one writes in torch today in the place of a normalisation, for benchmarks to compare with (Op.eager)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops.norm._shared import Norm

    Call = Callable[[], Any]


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
