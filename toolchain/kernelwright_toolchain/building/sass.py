# SPDX-License-Identifier: MIT
"""benchmarks/sass.toml: what each kernel of the default builds takes, recorded so that a change shows in review.

One row a kernel, one column a code; a cell is the number of registers, then `shared N`, `stack N` and
`spill STORES/LOADS` in bytes where they are not 0. Of kernels in which warpgroups multiply also `text N`, bytes of
machine code, and after it products, waits for them and exponentials in the order in which they stand there: compilers
move waits without a word, and then nothing overlaps any more. Such a kernel must not touch local memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright_toolchain.cubin import Cubin
from kernelwright_toolchain.cubin.code import code_of, multiplies
from kernelwright_toolchain.device.image import Image
from kernelwright_toolchain.errors import GateError, TableError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.request import Request
from kernelwright_toolchain.targets import Code, Table, Toolkit, load
from kernelwright_toolchain.targets.read import toml

FILE = Path("benchmarks/sass.toml")
ACCEPT = "python -m toolchain sass --write"
SHOWN = 20
WARPGROUPS = "wgmma"  # the feature

Cells = dict[tuple[str, str, str], str]  # (op, kernel, code) -> cell

HEAD = f"""\
# SPDX-License-Identifier: MIT
# Made by `{ACCEPT}` from the images of the default builds; `./kw build` compares.
# One row a kernel, one column a code: registers; then shared, stack, spill (stores/loads) in bytes where not 0.
# Where warpgroups multiply: bytes of machine code, and in it products, waits for them and exponentials in order.
"""


@dataclass(frozen=True)
class Recorded:
    """The file's contents."""

    toolkit: str
    codes: tuple[str, ...]
    cells: Cells


def recorded_set(table: Table) -> tuple[Toolkit, list[Code]]:
    """The reference toolkit, and every cubin that it makes for the default wheel of a released target."""
    released = [target for target in table.targets.values() if target.release]
    toolkit = table.toolkits[released[0].toolkit]
    alike = [target for target in released if target.toolkit == toolkit.name]
    wanted = {code.name for target in alike for code in table.default_codes(target, toolkit)}
    cubins = (code for code in table.codes.values() if code.name in wanted and code.kind == "cubin")
    return toolkit, [table.made(code, toolkit) for code in cubins]


def cells(images: Iterable[Image]) -> Cells:
    """Of these images; PTX has no registers yet, and no cells."""
    found: Cells = {}
    for image in images:
        for kernel in image.facts.kernels if isinstance(image.facts, Cubin) else ():
            spills = image.spills[kernel.name]
            cell = str(kernel.registers)
            cell += f" shared {kernel.shared}" if kernel.shared else ""
            cell += f" stack {kernel.stack}" if kernel.stack else ""
            cell += f" spill {spills.stores}/{spills.loads}" if spills.stores or spills.loads else ""
            cell += _products(image, kernel.name)
            found[image.op, kernel.name, image.code] = cell
    return found


def _products(image: Image, kernel: str) -> str:
    """What the cell says of a kernel in which warpgroups multiply, or nothing; GateError where it has local memory."""
    if WARPGROUPS not in load().codes[image.code].features:
        return ""
    code = code_of(image.data, kernel)
    if not multiplies(code):
        return ""
    if code.local:
        raise GateError(
            f"{kernel} for {image.code}: {code.local} loads and stores of local memory in a kernel in which warpgroups "
            "multiply; see that each register array is indexed by constants alone, and that registers suffice"
        )
    return f" text {code.bytes} {code}"


def text(toolkit: str, codes: Sequence[str], found: Cells) -> str:
    """The file: operators and kernels sorted, codes as given, columns aligned."""
    lines = [HEAD, f'toolkit = "{toolkit}"']
    lines.append("codes = [" + ", ".join(f'"{code}"' for code in codes) + "]")
    for op in sorted({key[0] for key in found}):
        kernels = sorted({key[1] for key in found if key[0] == op})
        # A kernel may be left out where a code lacks the feature it is made of.
        rows = {name: [f'"{found.get((op, name, code), "none")}"' for code in codes] for name in kernels}
        widths = [max(len(row[column]) for row in rows.values()) + 1 for column in range(len(codes))]
        longest = max(map(len, kernels))
        lines += ["", f"[{op}]"]
        for name, row in rows.items():
            padded = "".join(f"{cell + ',':<{width + 1}}" for cell, width in zip(row[:-1], widths, strict=False))
            lines.append(f"{name:<{longest}} = [{padded}{row[-1]}]")
    return "\n".join(lines) + "\n"


def merged(recorded: Mapping[tuple[str, str, str], str], built: Cells, missing: Iterable[tuple[str, str]]) -> Cells:
    """The cells of a file for which the (image, code) in `missing` were not built: there what was recorded stays.

    Not of kernels that an image no longer has for any code that was built.
    """
    unseen = set(missing)
    seen = {(op, name) for op, name, code in recorded if (op, code) not in unseen}
    gone = seen - {(op, name) for op, name, _ in built}
    kept = {key: cell for key, cell in recorded.items() if (key[0], key[2]) in unseen and key[:2] not in gone}
    return {**kept, **built}


def read(root: Path | None = None) -> Recorded:
    """What the file in the tree says, or GateError."""
    root = root or project().root
    path = root / FILE
    if not path.is_file():
        raise GateError(f"{FILE} is missing: nothing says what the kernels took before; make it with `{ACCEPT}`")
    try:
        raw: dict[str, Any] = toml(path.read_text(encoding="utf-8"), str(FILE))
        codes = tuple(str(code) for code in raw["codes"])
        rows = {(op, name): row for op, table in raw.items() if isinstance(table, dict) for name, row in table.items()}
        known = {
            (op, name, code): str(cell)
            for (op, name), row in rows.items()
            for code, cell in zip(codes, row, strict=True)
            if cell != "none"
        }
        return Recorded(str(raw["toolkit"]), codes, known)
    except (TableError, LookupError, TypeError, ValueError) as error:
        raise GateError(f"{FILE} is not what `{ACCEPT}` writes ({error}); run that") from None


def _differences(recorded: Mapping[tuple[str, str, str], str], built: Cells) -> list[str]:
    lines = []
    for key in sorted(recorded.keys() | built.keys()):
        old, new = recorded.get(key), built.get(key)
        if old != new:
            said = [f"recorded {old}" if old else "not recorded", f"built {new}" if new else "not built"]
            lines.append(f"{key[1]} for {key[2]}: {', '.join(said)}")
    return lines


def compare(recorded: Recorded, images: Iterable[Image], codes: Iterable[str]) -> None:
    """Raises GateError where these images, all that there are for these codes, take anything else than is recorded."""
    of = set(codes)
    wanted = {key: cell for key, cell in recorded.cells.items() if key[2] in of}
    lines = _differences(wanted, {key: cell for key, cell in cells(images).items() if key[2] in of})
    if lines:
        more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        raise GateError(
            "\n".join([f"the kernels are not what {FILE} says of them:", *lines[:SHOWN], *more])
            + f"\nIf that is meant, record it and commit the file with the change: {ACCEPT}"
        )


def check(request: Request, images: Iterable[Image], root: Path | None = None) -> None:
    """Holds a default build with the recorded toolkit to the file, whatever its target.

    Other toolkits, providers and debug builds may differ: they are labelled, and nobody reviews their numbers.
    """
    root = root or project().root
    if not request.is_default:
        return
    recorded = read(root)
    if request.toolkit.name == recorded.toolkit:
        compare(recorded, images, (code.name for code in request.codes))
