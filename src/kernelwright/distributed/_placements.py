# SPDX-License-Identifier: MIT
"""torch's names for sharded tensors, which are public since torch 2.5; an older one is refused in words."""

from __future__ import annotations

import torch

from kernelwright.errors import Unsupported


def _check() -> None:
    if not torch.distributed.is_available():
        raise Unsupported(
            f"kernelwright.distributed needs torch.distributed, which torch {torch.__version__} was built without"
        )
    from torch.distributed import tensor

    if not all((hasattr(tensor, "DTensor"), hasattr(tensor, "Partial"), hasattr(tensor, "Replicate"),
                hasattr(tensor, "Shard"))):  # fmt: skip
        raise Unsupported(f"kernelwright.distributed needs torch 2.5 or newer, but this is {torch.__version__}")


_check()

from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, parallel  # noqa: E402

__all__ = ["DTensor", "Partial", "Replicate", "Shard", "parallel"]
