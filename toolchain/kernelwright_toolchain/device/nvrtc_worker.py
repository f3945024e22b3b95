# SPDX-License-Identifier: MIT
"""One NVRTC compile, run as a script in a process of its own with a request on standard input.

It imports nothing of this project, so that it starts fast and works under `python -I -S`. The compiler's log goes to
standard output, the image to the file that was asked for. Exit code 3: NVRTC refused the source; 4: NVRTC itself
does not work here.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

REFUSED, BROKEN = 3, 4
_REFUSALS = (3, 4, 5, 6)  # invalid input, invalid program, invalid option, compilation failed


def load(library: str, builtins: str) -> ctypes.CDLL:
    """NVRTC, with its builtins loaded first: some releases find them only through the loader's path."""
    if builtins:
        ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(library)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc


def version(nvrtc: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    status = getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    status = status or getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    if status:
        raise OSError(f"nvrtcGet{what} failed: {nvrtc.nvrtcGetErrorString(status).decode()}")
    return buffer.raw[: size.value]


def compile_source(nvrtc: ctypes.CDLL, request: dict[str, object]) -> int:
    """0 with the image written, or REFUSED with the log printed."""
    program = ctypes.c_void_p()
    source, name = Path(str(request["source"])).read_bytes(), str(request["source"]).encode()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name, 0, None, None)
    if status:
        raise OSError(f"nvrtcCreateProgram failed: {nvrtc.nvrtcGetErrorString(status).decode()}")
    given = [str(option).encode() for option in request["options"]]  # type: ignore[attr-defined]
    options = (ctypes.c_char_p * len(given))(*given)
    status = nvrtc.nvrtcCompileProgram(program, len(given), options)
    print(_text(nvrtc, program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace"), flush=True)
    if status:
        print(nvrtc.nvrtcGetErrorString(status).decode(), flush=True)
        return REFUSED if status in _REFUSALS else BROKEN
    image = _text(nvrtc, program, str(request["form"]))
    Path(str(request["output"])).write_bytes(image.rstrip(b"\0") if request["form"] == "PTX" else image)
    return 0


def main() -> int:
    request = json.load(sys.stdin)
    try:
        nvrtc = load(request["library"], request["builtins"])
        if request.get("version"):
            print("{}.{}".format(*version(nvrtc)))
            return 0
        return compile_source(nvrtc, request)
    except (OSError, AttributeError) as error:
        print(error, flush=True)
        return BROKEN


if __name__ == "__main__":
    sys.exit(main())
