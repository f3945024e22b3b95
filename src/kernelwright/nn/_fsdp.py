# SPDX-License-Identifier: MIT
"""FSDP2 gathers packed codes as the bytes that they are.

On a GPU torch copies the shards of a floating type, before they are gathered, by arithmetic (torch._foreach_copy_ goes
through float32), which gives every NaN the same bits. Codes that are seen as bfloat16 or float16 are NaN here and
there: those weights would be others, without a word. FSDP2 asks a shard what is to be gathered of it; here it answers
with bytes.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.errors import Unsupported

if TYPE_CHECKING:
    from torch import Tensor

_INSTEAD = "quantize with quant_storage=torch.uint8, which FSDP2 takes beside parameters of any type"


def gather_bytes(weight: Any) -> None:
    """Of a parameter of codes, if it is a shard whose type is a float of 16 bits."""
    shard: Any = getattr(weight, "_local_tensor", None)  # a DTensor's own, the one that FSDP2 asks
    if shard is None or shard.dtype not in (torch.bfloat16, torch.float16) or not hasattr(weight, "placements"):
        return
    if weight.device_mesh.device_type != shard.device.type and not shard.is_meta:
        raise Unsupported(
            f"4-bit codes stored as {shard.dtype} cannot be sharded with CPU offload: torch changes some of them on "
            f"their way to the GPU; {_INSTEAD}"
        )
    parts = [size for size, at in zip(weight.device_mesh.shape, weight.placements, strict=True) if at.is_shard()]
    if any(weight.shape[0] % size for size in parts):
        raise Unsupported(
            f"4-bit codes stored as {shard.dtype} of shape {tuple(weight.shape)} cannot be shared equally by "
            f"{parts[0]} processes; {_INSTEAD}"
        )
    own, kind = weakref.ref(shard), shard.dtype

    def before(_mesh: Any, _size: Any, _stride: Any, _module: Any, _policy: Any) -> tuple[Any, Any]:
        held: Any = own()
        return (held.view(torch.uint8),), None

    def after(outputs: Any, _metadata: Any, _dtype: Any, *, out: Tensor | None = None) -> Any:
        # The same memory each time: what was made of it first sees what was gathered now.
        return None if out is not None else (outputs[0].view(kind), ())

    shard.fsdp_pre_all_gather, shard.fsdp_post_all_gather = before, after
