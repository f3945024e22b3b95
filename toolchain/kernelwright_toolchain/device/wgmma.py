# SPDX-License-Identifier: MIT
"""Writes the wrappers of wgmma.mma_async, csrc/device/ptx/wgmma_<type>_<where the left matrix is>.cuh.

    python -m kernelwright_toolchain.device.wgmma

One function a shape, its registers written out, because inline PTX has no loop over operands. A test compares the files
with what this gives.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.project import project

FOLDER = Path("csrc/device/ptx")
COLUMNS = (8, 16, 24, *range(32, 257, 16))  # s8 has no others; of the other types every multiple of 8 exists
WIDTH = 120


@dataclass(frozen=True)
class Type:
    """Of the elements of both factors."""

    name: str
    depth: int  # elements of k of one instruction
    sum: str  # the type of the sums in PTX
    register: str  # the same in C++
    scales: bool  # whether the instruction has factors of -1 or 1 for both matrices
    transposes: bool  # whether a matrix may lie with k as its slower dimension


TYPES = (
    Type("f16", 16, "f32", "float", scales=True, transposes=True),
    Type("bf16", 16, "f32", "float", scales=True, transposes=True),
    Type("e4m3", 32, "f32", "float", scales=True, transposes=False),
    Type("s8", 32, "s32", "int", scales=False, transposes=False),
)

HEAD = """\
// SPDX-License-Identifier: MIT
// Made by toolchain/device/wgmma.py: products of {what} by a warpgroup, the left matrix in {where}.
// d = left * right, plus d where `add` is not 0: 64 x {depth} and {depth} x n elements. `add` must be known when the
// kernel is compiled: a run-time one serialises all products (C7515); clear d and always add instead.
#pragma once

#include "device/types.cuh"

// clang-format off

namespace kw {{

#ifdef KW_HAS_WGMMA
"""


def _filled(items: Sequence[str], indent: str, last: str) -> list[str]:
    """Items with commas between them, as many a line as there is room for."""
    text = ", ".join(item.replace(" ", "\0") for item in items) + last
    lines = textwrap.wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    return [indent + line.replace("\0", " ") for line in lines]


def _strings(items: Sequence[str], last: str) -> Iterator[str]:
    """The same as string literals."""
    for line in _filled(items, " " * 7, last):
        yield f'      "{line.strip()} "'


def _function(of: Type, columns: int, *, shared: bool) -> Iterator[str]:
    count = columns // 2
    flags = [] if not of.transposes else ["kTransposeLeft", "kTransposeRight"] if shared else ["kTransposeRight"]
    if flags:
        yield f"template <{', '.join(f'int {flag} = 0' for flag in flags)}>"
    left = "u64 left" if shared else "const u32 (&left)[4]"
    yield (
        f"__device__ __forceinline__ void wgmma_{of.name}({of.register} (&d)[{count}], {left}, u64 right, u32 add) {{"
    )
    lefts = 1 if shared else 4
    right = count + lefts
    operands = [f"%{count}"] if shared else ["{%" + ", %".join(str(count + i) for i in range(4)) + "}"]
    operands += [f"%{right}", "p", *(["1", "1"] if of.scales else [])]
    operands += [f"%{right + 2 + i}" for i in range(len(flags))]
    shape = f"m64n{columns}k{of.depth}.{of.sum}.{of.name}.{of.name}"
    yield "  asm volatile("
    yield f'      "{{ .reg .pred p; setp.ne.b32 p, %{right + 1}, 0; wgmma.mma_async.sync.aligned.{shape} {{"'
    yield from _strings([f"%{i}" for i in range(count)], "},")
    yield f'      "{", ".join(operands)}; }}"'
    letter = "f" if of.register == "float" else "r"
    outputs = _filled([f'"+{letter}"(d[{i}])' for i in range(count)], " " * 8, "")
    outputs[0] = "      : " + outputs[0].lstrip()
    yield from outputs
    inputs = ['"l"(left)'] if shared else [f'"r"(left[{i}])' for i in range(4)]
    inputs += ['"l"(right)', '"r"(add)', *(f'"n"({flag})' for flag in flags)]
    yield f"      : {', '.join(inputs)}"
    yield '      : "memory");'
    yield "}"


def text(of: Type, *, shared: bool) -> str:
    """One file."""
    where = "shared memory" if shared else "registers"
    lines = [HEAD.format(what=of.name, where=where, depth=of.depth)]
    for columns in COLUMNS:
        lines += [*_function(of, columns, shared=shared), ""]
    return "\n".join([*lines, "#endif", "", "}  // namespace kw", ""])


WAITS = """\
// SPDX-License-Identifier: MIT
// Made by toolchain/device/wgmma.py: waits for products, for whose sums compilers then know that they have changed.
#pragma once

// clang-format off

namespace kw {

#ifdef KW_HAS_WGMMA

// Until at most the last kLeft groups are on their way: then d, which is of the others, may be read.
"""


def waits() -> str:
    """One function for each number of sums."""
    lines = [WAITS.rstrip()]
    for count in (columns // 2 for columns in COLUMNS):
        outputs = _filled([f'"+f"(d[{i}])' for i in range(count)], " " * 8, "")
        lines += [
            "template <int kLeft>",
            f"__device__ __forceinline__ void wgmma_wait(float (&d)[{count}]) {{",
            f'  asm volatile("wgmma.wait_group.sync.aligned %{count};"',
            "      : " + outputs[0].lstrip(),
            *outputs[1:],
            '      : "n"(kLeft)',
            '      : "memory");',
            "}",
            "",
        ]
    return "\n".join([*lines, "#endif", "", "}  // namespace kw", ""])


def files() -> dict[str, str]:
    """Name -> text."""
    products = {
        f"wgmma_{of.name}_{'shared' if shared else 'registers'}.cuh": text(of, shared=shared)
        for of in TYPES
        for shared in (True, False)
    }
    return {**products, "wgmma_wait.cuh": waits()}


if __name__ == "__main__":
    for name, made in files().items():
        (project().root / FOLDER / name).write_text(made, encoding="utf-8")
