# SPDX-License-Identifier: MIT
"""The library of this example, loaded; what it was compiled for."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

# cuBLAS of NVIDIA's package, where it is installed; without it the loader looks for a toolkit's.
_nvidia = find_spec("nvidia")
_folders = _nvidia.submodule_search_locations if _nvidia else None
for _found in sorted(path for folder in _folders or () for path in Path(folder).glob("*/lib/libcublas.so.*")):
    ctypes.CDLL(str(_found), ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(str(Path(__file__).with_name("libclassic.so")))
library.classic_archs.restype = ctypes.c_char_p
archs = library.classic_archs().decode()
