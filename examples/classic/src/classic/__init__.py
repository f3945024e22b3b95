# SPDX-License-Identifier: MIT
"""The library of this example, loaded; what it was compiled for."""

import ctypes
from pathlib import Path

library = ctypes.CDLL(str(Path(__file__).with_name("libclassic.so")))
library.classic_archs.restype = ctypes.c_char_p
archs = library.classic_archs().decode()
