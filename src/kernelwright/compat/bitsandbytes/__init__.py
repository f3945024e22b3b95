# SPDX-License-Identifier: MIT
"""bitsandbytes' package on kernelwright: `import kernelwright.compat.bitsandbytes as bnb`.

Its modules, functions, layers and optimizers have bitsandbytes' names, arguments, states and checkpoints; nothing of
bitsandbytes is imported. After `install()` other programs' `import bitsandbytes` finds this package, where none is
installed. A name that is not covered raises NotCovered and says why.

>>> import kernelwright.compat.bitsandbytes as bnb
>>> packed, state = bnb.functional.quantize_4bit(torch.randn(64, 128), quant_type="nf4")
>>> bnb.matmul_4bit(torch.randn(3, 128), packed, state).shape
"""

from __future__ import annotations

from kernelwright.compat._bitsandbytes import VERSION, install, installed, uninstall
from kernelwright.compat._covered import refuse_others
from kernelwright.compat.bitsandbytes import autograd, cextension, consts, cuda_specs, functional, nn, optim, utils
from kernelwright.compat.bitsandbytes.autograd._functions import MatmulLtState, matmul, matmul_4bit
from kernelwright.compat.bitsandbytes.nn import modules
from kernelwright.compat.bitsandbytes.optim import adam

__all__ = [
    "MatmulLtState",
    "adam",
    "autograd",
    "cextension",
    "consts",
    "cuda_specs",
    "functional",
    "install",
    "installed",
    "matmul",
    "matmul_4bit",
    "modules",
    "nn",
    "optim",
    "uninstall",
    "utils",
]

__version__ = VERSION
features = {"multi_backend"}
"""By which transformers knows that a model may be quantized where there is no GPU."""
supported_torch_devices = {"cpu", "cuda"}

_OTHERS = (
    "kernelwright has kernels for CPUs and NVIDIA's GPUs alone, not for AMD's (ROCm), Intel's (XPU, HPU) or Apple's "
    "(MPS)"
)
_WHY = {
    "backends": "there is one implementation for each device, and no registry of others",
    "diagnostics": "`python -m kernelwright doctor` says what is wrong with an installation",
    "research": "it is not part of bitsandbytes any more",
    "xpu_ops": _OTHERS,
    "hpu_ops": _OTHERS,
    "mps_ops": _OTHERS,
}
__getattr__ = refuse_others(__name__, __all__, "What is not there, and why: docs/bitsandbytes.md", _WHY)
