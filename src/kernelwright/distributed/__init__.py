# SPDX-License-Identifier: MIT
"""Tensor parallelism: torch's styles for `parallelize_module`, which also take layers in 4 bits and ternary ones.

Norms, SwiGLU and `torch.nn.Linear` need nothing from here: torch's own styles shard them. `ColwiseParallel` and
`RowwiseParallel` of this package have the arguments of torch's, do what torch's do with `torch.nn.Linear`, and shard
quantized weights as they are, without going through floats.

>>> from torch.distributed.tensor.parallel import parallelize_module
>>> from kernelwright.distributed import ColwiseParallel, RowwiseParallel
>>> parallelize_module(mlp, mesh, {"up_proj": ColwiseParallel(), "down_proj": RowwiseParallel()})
"""

from __future__ import annotations

from kernelwright.distributed._styles import ColwiseParallel, RowwiseParallel

__all__ = ["ColwiseParallel", "RowwiseParallel"]
