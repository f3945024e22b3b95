# SPDX-License-Identifier: MIT
"""Which modules of other libraries compute what an operator computes, and the forward pass that calls it.

A pattern names what a module must look like. Whether it computes that is not taken from its name: before a module is
changed its own forward pass is compared with the one that would take its place. Within torch.compile a module goes its
own way, since the compiler makes one kernel of a norm and of what stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.nn import _attention as attention
from kernelwright.nn import _decoder as decoder
from kernelwright.nn import _feed_forward as feed
from kernelwright.nn import _norms as norms

if TYPE_CHECKING:
    from collections.abc import Callable

    Forward = Callable[..., Any]


@dataclass(frozen=True)
class Pattern:
    """One kind of module."""

    kind: str
    matches: Callable[[Any], bool]
    width: Callable[[Any], int] | None
    """Of the rows that it takes. None: it is the module's own pass on weights that lie together, and nothing else."""
    forward: Forward
    """In place of the module's own, to which it may go back."""
    merge: Callable[[Any, bool], str | None] | None = None
    """Brings weights together in memory that one product may then take, or says why it cannot; `part` undoes it. False:
    of quantized layers alone, and "" of others."""
    part: Callable[[Any], None] | None = None
    merges: str = ""
    """The layers of those weights, in words."""


PATTERNS = (
    Pattern("norm", norms.is_rms_norm, lambda module: module.weight.numel(), norms.of_factors),
    Pattern("norm", norms.is_rms_norm, lambda module: module.weight.numel(), norms.of_offsets),
    Pattern("norm", norms.is_layer_norm, lambda module: module.normalized_shape[0], norms.of_layer),
    Pattern("gated MLP", feed.is_gated, feed.gated_width, feed.gated, feed.merge, feed.part, "gate and up"),
    Pattern("gated MLP", feed.is_gated_packed, feed.gated_width, feed.gated_packed),
    Pattern(
        "attention", attention.is_attention, None, attention.forward, attention.merge, attention.part, "q, k and v"
    ),
    Pattern("decoder layer", decoder.is_decoder, None, decoder.forward),
    Pattern("linear and activation", feed.is_dense, feed.width_of, feed.dense),
    Pattern("linear and activation", feed.is_two_layers, feed.width_of, feed.two_layers),
    Pattern("linear and activation", feed.is_sequence, feed.width_of, feed.sequence),
)
"""Of patterns that match a module the first is taken whose forward pass gives what the module's own gives."""

for _pattern in PATTERNS:
    _pattern.forward.__name__ = "forward"  # by which a pickled module finds its own again
