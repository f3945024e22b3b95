# SPDX-License-Identifier: MIT
"""Every operator with a torch that lacks one name: `python -m tests.python.drift_program WITHOUT`.

WITHOUT is a name that `kernelwright.ops._private` looks up, or "". Prints which names were looked up.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from kernelwright.ops import _private

LACKED, TAKEN = sys.argv[1], set()
_take = _private.take


def take(holder: str, name: str) -> Any:
    TAKEN.add(name)
    return None if name == LACKED else _take(holder, name)


_private.take = take

from kernelwright import ops
from kernelwright.ops._calls import calls
from tests.python import tensors


def arguments(op: Any, overload: Any) -> tuple[Any, ...]:
    case = op.cases_for("small", overload.name, "float32")[0]
    return op.make(case, "cpu", tensors.generator(3, "cpu"))


def right(op: Any, overload: Any) -> None:
    """Values, where nothing records a gradient; in inference mode too."""
    given = arguments(op, overload)
    exact = [a.double().clone() if isinstance(a, torch.Tensor) else tensors.wide(a) for a in given]
    expected = tensors.outputs(overload.reference(*[e.clone() if isinstance(e, torch.Tensor) else e for e in exact]))
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            args = [a.clone() if isinstance(a, torch.Tensor) else a for a in given]
            found = tensors.outputs(getattr(getattr(calls, op.name), overload.name)(*args))
        bounds = tensors.allowed(op, overload.name, exact, expected, found)
        for a, b, bound in zip(found, expected, bounds, strict=True):
            tensors.assert_near(a, b, bound, f"{op.qualified(overload)} without {LACKED}", strict=not overload.terms)


def derived(op: Any, overload: Any) -> None:
    """Gradients of the first tensor, beside those of the reference."""
    args = arguments(op, overload)
    grads = []
    for function in (getattr(getattr(calls, op.name), overload.name), overload.reference):
        x = args[0].clone().requires_grad_()
        sum(out.pow(2).sum() for out in tensors.outputs(function(x, *args[1:]))).backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-3, atol=1e-3)


def main() -> None:
    ops.register()
    for op, overload in tensors.OVERLOADS:
        right(op, overload)
        if overload.backward:
            derived(op, overload)
    written = torch.randn(3, 8)
    before = written._version
    calls.rms_norm.residual_(torch.randn(3, 8), written, None, 1e-6)
    assert written._version == before + 1, "what is written to is not counted"
    print(*sorted(TAKEN))


main()
