# SPDX-License-Identifier: MIT
"""flash-attn's functions on kernelwright's kernels: `import kernelwright.compat.flash_attn as flash_attn`.

Layouts, arguments and their order are flash-attn 2's. An argument that kernelwright has no kernel for is refused by its
name, never ignored; a name that is not covered raises NotCovered. `install()` makes `import flash_attn` itself give
these, for programs that ask for it.

>>> from kernelwright.compat.flash_attn import flash_attn_func
>>> out = flash_attn_func(q, k, v, causal=True)
"""

from __future__ import annotations

from kernelwright.compat._covered import refuse_others
from kernelwright.compat.flash_attn import bert_padding, flash_attn_interface, layers
from kernelwright.compat.flash_attn._install import VERSION, install, installed, uninstall
from kernelwright.compat.flash_attn.flash_attn_interface import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

__version__ = VERSION

__all__ = [
    "__version__",
    "bert_padding",
    "flash_attn_func",
    "flash_attn_interface",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "install",
    "installed",
    "layers",
    "uninstall",
]

__getattr__ = refuse_others(__name__, [name for name in __all__ if name != "__version__"], "Install flash-attn for it")
