# SPDX-License-Identifier: MIT
"""Writes the images of the loader's tests: `fixture.py DIR` makes DIR/kernels and DIR/kw_images.inc.

They are no code: an ELF header with the architecture where NVIDIA's has it, and lines that the stand-in driver reads.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from pathlib import Path

FEATURES = ("cluster", "pdl", "tma", "wgmma", "bf16_mma", "cp_async", "ldmatrix")  # the last: named, not had
KERNELS = "kernel=probe_plain:16\nkernel=probe_other:16\nkernel=probe_narrow:8\n"
# code, capabilities, features, ELF ABI
CUBINS = (
    ("sm_80", "8.0 8.6 8.7 8.9", (), 7),
    ("sm_89", "8.9", (), 7),
    ("sm_90", "9.0", ("cluster", "pdl", "tma"), 8),
    ("sm_90a", "9.0", ("cluster", "pdl", "tma", "wgmma"), 7),
)
LEFT_OUT = ("other", "sm_86", "8.6", "sm_80")  # op, code, its capabilities, the code whose equal image serves
PTX = (("compute_90", "9.0", ("cluster", "pdl", "tma")),)


def cubin(number: int, abi: int, body: str) -> bytes:
    flags = number << 16 | 5 << 8 | number if abi == 7 else 6 << 24 | number << 8 | 4
    text = body.encode()
    tables = 64 + len(text)  # one empty section header behind the text, as the real ones end with their tables
    ident = b"\x7fELF" + bytes([2, 1, 1, 0x33 if abi == 7 else 0x41, abi]) + bytes(7)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, tables, flags, 64, 56, 0, 64, 1, 0)
    return header + text + bytes(64)


def ptx(number: int, body: str) -> bytes:
    lines = "".join(f"// {line}\n" for line in body.splitlines())
    return f"//\n.version 8.2\n.target sm_{number}\n.address_size 64\n{lines}".encode()


def images() -> list[tuple[str, str, str, str, tuple[str, ...], bytes]]:
    made = []
    for op in ("other", "probe"):
        for code, runs_on, features, abi in CUBINS if op == "probe" else CUBINS[:1]:
            number = int("".join(filter(str.isdigit, code)))
            made.append((op, code, "CUBIN", runs_on, features, cubin(number, abi, f"image={op} {code}\n{KERNELS}")))
        for code, runs_on, features in PTX if op == "probe" else ():
            body = f"image={op} {code}\n{KERNELS}"
            made.append((op, code, "PTX", runs_on, features, ptx(int(code.partition("_")[2]), body)))
    return made


def main() -> None:
    out = Path(sys.argv[1])
    lines = ["#ifndef KW_PROBE_IMAGES", "#define KW_PROBE_IMAGES"]
    lines += [f"#define KW_FEATURE_{name.upper()} (1u << {bit})" for bit, name in enumerate(FEATURES)]
    lines += [
        '#define KW_BUILD_VERSION "0.0.0"',
        '#define KW_BUILD_TOOLKIT "probe"',
        "#define KW_BUILD_DRIVER_CUDA 12020",
    ]
    lines += ['#define KW_BUILD_DRIVER_LINUX "535.54.03"', "#endif", "#ifdef KW_IMAGE"]
    for op, code, kind, runs_on, features, data in images():
        path = out / "kernels" / code / f"{op}.{kind.lower()}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        bits = " | ".join(f"KW_FEATURE_{name.upper()}" for name in features) or "0"
        file = f'"{code}", "{runs_on.partition(" ")[0]}", {len(data)}, "{hashlib.sha256(data).hexdigest()}"'
        lines.append(f'KW_IMAGE("{op}", "{code}", KW_IMAGE_{kind}, "{runs_on}", {bits}, {file})')
        if (op, code) == (LEFT_OUT[0], LEFT_OUT[3]):
            lines.append(f'KW_IMAGE("{op}", "{LEFT_OUT[1]}", KW_IMAGE_{kind}, "{LEFT_OUT[2]}", {bits}, {file})')
    (out / "kw_images.inc").write_text("\n".join([*lines, "#endif", ""]))


if __name__ == "__main__":
    main()
