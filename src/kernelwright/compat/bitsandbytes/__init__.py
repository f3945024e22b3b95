# SPDX-License-Identifier: MIT
"""bitsandbytes' names for 4-bit quantization: `import kernelwright.compat.bitsandbytes as bnb`.

Covered are the functions and modules of NF4 and FP4 with their state and checkpoints. A name that is not covered raises
NotCovered and says so; nothing of bitsandbytes is imported.

>>> import kernelwright.compat.bitsandbytes as bnb
>>> packed, state = bnb.functional.quantize_4bit(torch.randn(64, 128), quant_type="nf4")
>>> bnb.matmul_4bit(torch.randn(3, 128), packed, state).shape
"""

from __future__ import annotations

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.bitsandbytes import functional, nn
from kernelwright.compat.bitsandbytes.functional import matmul_4bit

__all__ = ["functional", "matmul_4bit", "nn"]

OTHERWISE = (
    "For the rest install bitsandbytes itself; kernelwright.integrations.bitsandbytes.enable() puts kernelwright's "
    "kernels under its 4-bit operators"
)
__getattr__ = refuse_others(__name__, __all__, OTHERWISE)
