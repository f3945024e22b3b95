# SPDX-License-Identifier: MIT
"""The activation that lets a part of what is negative through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.ops._calls import calls
from kernelwright.ops._elementwise import Formula, elementwise

if TYPE_CHECKING:
    from torch import Tensor


def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    """`y = x` where x is not negative, else `slope * x`.

    x  float32, float16 or bfloat16, on the CPU or a GPU; computed in float32. float64 works too.

    Returns y, of x's dtype and shape, contiguous. Has no derivative.

    >>> y = kernelwright.leaky_relu(x, 0.1)
    """
    found: Tensor = calls.leaky_relu.default(x, slope)
    return found


def _in_torch(x: Tensor, slope: float = 0.01) -> Tensor:
    return x.where(x >= 0, slope * x)


OP = elementwise(
    "leaky_relu",
    doc="leaky ReLU",
    function=leaky_relu,
    formulas=(
        Formula(
            "(Tensor x, float slope=0.01) -> Tensor",
            in_torch=_in_torch,
            in_python=lambda x, slope: x if x >= 0 else slope * x,
            operations=2,
            numbers=({}, {"slope": 0.3}),
        ),
    ),
)
