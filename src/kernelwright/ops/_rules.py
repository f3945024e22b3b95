# SPDX-License-Identifier: MIT
"""What torch is told of operators beside their kernels: what autocast does to them, how their work is counted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernelwright.ops._tensors import without_autocast

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernelwright.ops._record import Op, Overload
    from kernelwright.ops._schema import Schema


def flops_of_product(x: Any, *_: Any, out_shape: Any, **__: Any) -> int:
    """Of `x @ weight.T`, with x of [..., k] and the result of [..., n]."""
    return 2 * math.prod(out_shape) * int(x[-1])


def count_flops(op: Op, packet: Any) -> None:
    from torch.utils.flop_counter import flop_registry, register_flop_formula

    if op.flop_formula and packet not in flop_registry:
        register_flop_formula(packet, get_raw=op.flops_by_values)(op.flop_formula)


def _lowered(torch: Any, target: Any, overload: Overload, schema: Schema, kind: str) -> Callable[..., Any]:
    """As torch does it for linear layers: all floating-point tensors but float64 take autocast's type."""
    places = [place for place in schema.tensors if schema.arguments[place].name not in overload.fixed]

    def run(*args: Any) -> Any:
        dtype, given = torch.get_autocast_dtype(kind), list(args)
        for place in places:
            value = args[place]
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64:
                given[place] = value.to(dtype)
        with without_autocast(torch.device(kind)):
            return target(*given)

    return run


def obey_autocast(torch: Any, library: Any, target: Any, name: str, overload: Overload, schema: Schema) -> None:
    if overload.autocast:
        for kind, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
            library.impl(name, _lowered(torch, target, overload, schema, kind), key)
