# SPDX-License-Identifier: MIT
"""Ternary layers that take the same input as one product, and norms in one pass with the quantization behind them.

Codes lie in groups of 16 rows. So those of several layers, one behind the other, are those of one larger weight, where
each but the last ends with a group; `packed` of each layer is a view of its own. The product takes a scale for each of
its rows: each layer's own, as often as it has rows. Sums are exact, so results have the bits of the layers' products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kernelwright.nn import _norms
from kernelwright.nn._memory import Memory, first_reason, hooked, starts
from kernelwright.nn.bit_linear import BitLinear, frozen
from kernelwright.ops.ternary import _codes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


class JoinedTernary(Memory):
    def __init__(self, layers: Sequence[BitLinear]) -> None:
        sizes = [layer.out_features for layer in layers]
        packed = torch.cat([layer.packed.reshape(-1) for layer in layers])
        scale = torch.cat([layer._factor().expand(layer.out_features) for layer in layers])  # noqa: SLF001
        super().__init__(sizes, (packed, scale, sum(sizes), layers[0].in_features))
        counts = [layer.packed.numel() for layer in layers]
        self.starts = starts(counts)
        for layer, part in zip(layers, packed.split(counts), strict=True):
            layer.packed = part.view(layer.packed.shape)

    def holds(self, layer: Any, place: int) -> bool:
        """Whether a layer's weight still lies there."""
        return bool(layer.packed.data_ptr() == self.weight[0].data_ptr() + self.starts[place])

    def product(self, x: Tensor, norm: Any = None) -> Tensor | None:
        """What the layers give, side by side. None: a layer has something to say about x."""
        packed, scale, n, k = self.weight
        if x.dim() == 0 or x.shape[-1] != k:
            return None
        known = None if norm is None else _norms.in_one_pass(norm, x)
        if norm is not None and known is None:
            x = norm(x)
        return frozen(x, packed, scale, None, n, known)


def after(norm: Any, layer: Any, x: Tensor) -> Any:
    """layer(norm(x)), by one pass through x where nothing is in the way."""
    known = _norms.in_one_pass(norm, x) if type(layer) is BitLinear and not hooked(layer) else None
    return layer(norm(x)) if known is None or not layer.takes_norm() else layer.normed(x, known)


# --- together, and apart again --------------------------------------------------------


def why_not(layers: Sequence[Any]) -> str | None:
    """Why the weights of these layers cannot lie together."""
    reasons: dict[str, Callable[[Any], Any]] = {
        "another library hooks into its layers": hooked,
        "its weights are in floats, and may train": lambda layer: layer.weight is not None,
        "its weights are sharded over processes, or of another class": lambda layer: (
            layer.group is not None or type(layer.packed) is not torch.Tensor
        ),
        "its weights have no values yet": lambda layer: layer.packed.is_meta,
        "its layers have norms of their own": lambda layer: layer.rms_norm is not None,
        "it has a bias, which is of the input's type in each call": lambda layer: layer.bias is not None,
    }
    reason = first_reason(layers, reasons)
    if reason is None and len({(layer.packed.device, layer.in_features) for layer in layers}) > 1:
        return "its layers differ in width or device"
    if reason is None and any(layer.out_features % _codes.ROWS for layer in layers[:-1]):
        return f"a layer's weight does not end with a group of {_codes.ROWS} rows"
    return reason


def part(layer: Any) -> None:
    """Gives it its own memory again."""
    layer.packed = layer.packed.clone()
