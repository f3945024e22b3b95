# SPDX-License-Identifier: MIT
"""The launcher of a device-only package, in C: its images, one exported function a kernel, the header of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright_toolchain.packages import boxed
from kernelwright_toolchain.packages.table import SCALARS, Kernel, asked_name, in_c
from kernelwright_toolchain.targets import Code

RUNTIME = Path(__file__).resolve().parent / "runtime.c"
_HEAD = "// SPDX-License-Identifier: MIT\n// Made by kernelwright-toolchain from the tables of kernels.\n"


def parameters(kernel: Kernel) -> list[str]:
    """Of the C function, in its order."""
    written = {one.name for one in kernel.arguments if one.written} | set(kernel.returns)
    found = ["int dtype"]
    for one in kernel.arguments:
        const = "" if one.name in written else "const "
        found.append(f"{const}void *{one.name}" if one.kind == "Tensor" else f"{SCALARS[one.kind]} {one.name}")
    found += [f"void *{name}" for name in kernel.returns]
    found += [f"int64_t {asked_name(*one)}" for one in kernel.asked]
    return [*found, "int device", "void *stream"]


def _three(values: Sequence[str]) -> str:
    return ", ".join([*map(in_c, values), "1", "1"][:3])


def _declaration(package: str, kernel: Kernel) -> str:
    return f"int {package}_{kernel.name}({', '.join(parameters(kernel))})"


def header(package: str, kernels: Sequence[Kernel]) -> str:
    """NAME.h: what C and C++ call."""
    guard = f"{package.upper()}_H"
    lines = [
        _HEAD + f'#ifndef {guard}\n#define {guard}\n#include <stdint.h>\n#ifdef __cplusplus\nextern "C" {{\n#endif',
        "// 0, a CUresult, or -1; the words for it are those of the calling thread.",
        f"const char *{package}_error(void);",
    ]
    for kernel in kernels:
        numbers = ", ".join(f"{number} {dtype}" for number, dtype in enumerate(kernel.dtypes))
        lines += [
            f"// {kernel.name}{kernel.schema}. dtype: {numbers}. Tensors are addresses on the device.",
            f"{_declaration(package, kernel)};",
        ]
    return "\n".join([*lines, "#ifdef __cplusplus\n}\n#endif\n#endif", ""])


def _image(number: int, module: int, code: Code, name: str) -> tuple[str, str]:
    """Its bytes in the library, and its row. The driver reads PTX up to a zero."""
    data = (
        f'__asm__(".pushsection .rodata,\\"a\\",@progbits\\n.balign 16\\n.hidden kw_data_{number}\\n"\n'
        f'        ".globl kw_data_{number}\\nkw_data_{number}:\\n.incbin \\"{name}\\"\\n.byte 0\\n.popsection\\n");\n'
        f'extern const unsigned char kw_data_{number}[] __attribute__((visibility("hidden")));'
    )
    runs_on = ", ".join("".join(map(str, capability.parts)) for capability in code.runs_on)
    return data, f'    {{"{code.name}", {module}, {int(code.kind == "ptx")}, {{{runs_on}}}, kw_data_{number}}},'


def _function(package: str, kernel: Kernel, first: int) -> str:
    values = [f"  __auto_type kw_{number} = {in_c(value)};" for number, value in enumerate(kernel.args)]
    addresses = ", ".join(f"&kw_{number}" for number in range(len(kernel.args)))
    count = len(kernel.dtypes)
    return "\n".join([
        f'__attribute__((visibility("default"))) {_declaration(package, kernel)} {{',
        f"  if (dtype < 0 || dtype >= {count}) {{",
        f'    return kw_fail("{kernel.name}: dtype %d: 0 to {count - 1} are known", dtype);',
        "  }",
        f"  const int64_t grid[3] = {{{_three(kernel.grid)}}}, block[3] = {{{_three(kernel.block)}}};",
        *values,
        f"  void *arguments[] = {{{addresses}}};",
        f"  return kw_launch({first} + dtype, device, stream, grid, block, {in_c(kernel.shared)}, arguments);",
        "}",
    ])  # fmt: skip


def packed(package: str, kernel: Kernel) -> str:
    """The same call with all arguments in one piece of memory, which Python packs sooner than ctypes converts them."""
    names = ", ".join(f"all.{one.rpartition(' ')[2].lstrip('*')}" for one in parameters(kernel))
    name = f"{package}_{kernel.name}"
    return "\n".join([
        f'__attribute__((visibility("default"))) int {name}_packed(const void *at) {{',
        f"  struct {{ {' '.join(f'{one};' for one in parameters(kernel))} }} all;",
        "  memcpy(&all, at, sizeof all);",
        f"  return {name}({names});",
        "}",
    ])  # fmt: skip


def source(
    package: str, kernels: Sequence[Kernel], images: Mapping[tuple[str, str], str], codes: Sequence[Code]
) -> str:
    """`images`: (stem of the source, code) -> its file, as the compiler finds it."""
    stems = sorted({Path(kernel.source).stem for kernel in kernels})
    data: list[str] = []
    rows: list[str] = []
    entries: list[str] = []
    functions: list[str] = []
    for (stem, name), path in images.items():
        code = next(one for one in codes if one.name == name)
        one = _image(len(rows), stems.index(stem), code, path)
        data.append(one[0])
        rows.append(one[1])
    for kernel in kernels:
        functions += [_function(package, kernel, len(entries)), packed(package, kernel)]
        module = stems.index(Path(kernel.source).stem)
        entries += [f'    {{"{kernel.entry_of(dtype)}", {module}}},' for dtype in kernel.dtypes]
    names = ", ".join(code.name for code in codes)
    return "\n".join([
        _HEAD + "#include <stdint.h>",
        f'#define KW_IMAGES {len(rows)}\n#define KW_ENTRIES {len(entries)}\n#define KW_CODES "{names}"',
        "struct kw_image {\n  const char *code;\n  int module, is_ptx, runs_on[8];\n  const unsigned char *data;\n};",
        "struct kw_entry {\n  const char *name;\n  int module;\n};",
        *data,
        "static const struct kw_image kw_images[] = {", *rows, "};",
        "static const struct kw_entry kw_entries[] = {", *entries, "};",
        RUNTIME.read_text(encoding="utf-8"),
        f'__attribute__((visibility("default"))) const char *{package}_error(void) {{ return kw_text; }}',
        *functions,
        boxed.source(package, kernels),
        "",
    ])  # fmt: skip
